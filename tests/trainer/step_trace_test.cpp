// Traces of whole runs: what a viewer needs to draw them, and that nothing is missing.
#include "trainer/step_trace.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "parallel/runtime/pipeline_plan.h"
#include "tests/trainer/tiny_training.h"
#include "trainer/backend.h"

namespace penstock {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::UnorderedElementsAreArray;
using Track = std::pair<int, int>;

struct StepTraceTest : TrainingTest {
  json trace(const std::string& name, int step) const {
    return json::parse(std::ifstream(run(name) / "trace" / fmt::format("step-{:08}.json", step)));
  }

  static std::vector<json> events(const json& trace, const char* phase) {
    std::vector<json> found;
    for (const json& event : trace["traceEvents"]) {
      if (event["ph"] == phase) found.push_back(event);
    }
    return found;
  }
};

// Perfetto counts nanoseconds.
int64_t nanoseconds(const json& event, const char* key) {
  return std::llround(event[key].get<double>() * 1000);
}

Track track_of(const json& event) {
  return {event["pid"].get<int>(), event["tid"].get<int>()};
}

std::map<Track, std::vector<json>> by_track(const std::vector<json>& slices) {
  std::map<Track, std::vector<json>> tracks;
  for (const json& slice : slices) tracks[track_of(slice)].push_back(slice);
  return tracks;
}

void expect_slices_apart(const std::vector<json>& slices) {
  for (const auto& [track, on_it] : by_track(slices)) {
    int64_t end = 0;
    for (const json& slice : on_it) {
      EXPECT_GE(nanoseconds(slice, "ts"), end) << slice;
      EXPECT_GT(nanoseconds(slice, "dur"), 0) << slice;
      EXPECT_LE(nanoseconds(slice["args"], "enqueued"), nanoseconds(slice, "ts")) << slice;
      end = nanoseconds(slice, "ts") + nanoseconds(slice, "dur");
    }
  }
}

// Both ends of arrows have slices of their own, in the order of time: Perfetto turns an arrow around whose
// end is in a slice that starts before its begin's.
void expect_own_slices(const std::vector<json>& arrow_slices, const std::vector<json>& ends,
                       const char* name) {
  std::set<std::pair<Track, int64_t>> found;
  for (const json& slice : arrow_slices) {
    if (slice["name"] != name) continue;
    EXPECT_EQ(nanoseconds(slice, "dur"), 1);
    found.emplace(track_of(slice), nanoseconds(slice, "ts"));
  }
  EXPECT_EQ(found.size(), ends.size());
  for (const json& end : ends) EXPECT_TRUE(found.count({track_of(end), nanoseconds(end, "ts")}) == 1) << end;
}

// As Perfetto binds an arrow's end without them: to the slice that is open on its track at that time.
const json* enclosing(const std::map<Track, std::vector<json>>& tracks, const json& arrow) {
  const int64_t at = nanoseconds(arrow, "ts");
  for (const json& slice : tracks.at(track_of(arrow))) {
    const int64_t begin = nanoseconds(slice, "ts");
    if (begin <= at && at < begin + nanoseconds(slice, "dur")) return &slice;
  }
  return nullptr;
}

// Every send has one arrow to its receive. Returns how many.
size_t expect_arrows(const std::vector<json>& slices, const std::vector<json>& begins,
                     const std::vector<json>& ends) {
  const auto tracks = by_track(slices);
  std::map<int64_t, json> by_id;
  for (const json& end : ends) {
    EXPECT_EQ(end["bp"], "e") << end;
    EXPECT_TRUE(by_id.emplace(end["id"].get<int64_t>(), end).second) << "twice: " << end;
  }
  EXPECT_EQ(begins.size(), ends.size());
  std::set<std::string> senders;
  for (const json& begin : begins) {
    const auto found = by_id.find(begin["id"].get<int64_t>());
    if (found == by_id.end()) {
      ADD_FAILURE() << "leads nowhere: " << begin;
      continue;
    }
    const json& end = found->second;
    EXPECT_EQ(begin["name"], end["name"]);
    EXPECT_EQ(begin["cat"], end["cat"]);
    EXPECT_GE(nanoseconds(end, "ts"), nanoseconds(begin, "ts")) << begin << " to " << end;
    const json* send = enclosing(tracks, begin);
    const json* receive = enclosing(tracks, end);
    if (send == nullptr || receive == nullptr) {
      ADD_FAILURE() << "no slice around " << begin << " or " << end;
      continue;
    }
    EXPECT_EQ((*send)["name"], "send " + begin["name"].get<std::string>());
    EXPECT_EQ((*receive)["name"], "receive " + begin["name"].get<std::string>());
    EXPECT_EQ((*send)["args"]["peer"], (*receive)["pid"]);
    EXPECT_EQ((*receive)["args"]["peer"], (*send)["pid"]);
    EXPECT_EQ((*send)["args"]["bytes"], 2 * 16 * 32 * 4) << "sequences, tokens, channels, bytes of fp32";
    EXPECT_TRUE(senders.insert(send->dump()).second) << "two arrows from " << *send;
    by_id.erase(found);
  }
  return senders.size();
}

TEST_F(StepTraceTest, ShowsEveryInstructionOfEveryRank) {
  const std::vector<std::vector<std::string>> pipelines{
      {"parallel.pipeline=4"},
      {"parallel.pipeline=2", "parallel.schedule=zbv", "parallel.chunks=2", "parallel.data=2"}};
  for (const std::vector<std::string>& change : pipelines) {
    std::vector<std::string> settings = change;
    settings.insert(settings.end(), {"batch.global=16", "run.steps=3", "trace.steps=[1, 3]"});
    const std::string& name = change.back();
    const Job traced = job(name, settings);
    ASSERT_EQ(train(traced, {}), ExitCode::finished);
    EXPECT_FALSE(fs::exists(run(name) / "trace" / "step-00000002.json")) << "nobody asked for it";
    const runtime::PipelinePlan plan = runtime::plan_pipeline(pipeline_request(traced));
    for (const int step : {1, 3}) {
      const json file = trace(name, step);
      EXPECT_EQ(file["displayTimeUnit"], "ms");
      EXPECT_EQ(file["otherData"]["step"], step);
      EXPECT_EQ(file["otherData"]["clock_error_us"], 0) << "threads of one process";
      std::vector<json> slices = events(file, "X");
      const auto instructions_end = std::stable_partition(
          slices.begin(), slices.end(), [](const json& slice) { return slice["cat"] != "message"; });
      const std::vector<json> arrow_slices(instructions_end, slices.end());
      slices.erase(instructions_end, slices.end());
      expect_own_slices(arrow_slices, events(file, "s"), "leaves");
      expect_own_slices(arrow_slices, events(file, "f"), "arrives");
      expect_slices_apart(slices);
      size_t messages = 0;
      for (int rank = 0; rank < plan.topology.ranks(); ++rank) {
        std::vector<std::string> expected;
        std::vector<std::string> shown;
        const int pipeline_rank = plan.topology.place(rank).pipeline;
        for (const auto& at : plan.training.ranks[static_cast<size_t>(pipeline_rank)].instructions) {
          expected.push_back(in_words(at));
          messages += at.kind == schedule::InstructionKind::send ? 1 : 0;
        }
        for (const json& slice : slices) {
          if (slice["pid"] == rank) shown.push_back(slice["name"]);
        }
        EXPECT_THAT(shown, UnorderedElementsAreArray(expected)) << "rank " << rank;
      }
      EXPECT_GT(messages, 10u);
      EXPECT_EQ(expect_arrows(slices, events(file, "s"), events(file, "f")), messages);
    }
  }
}

TEST_F(StepTraceTest, NamesRanksAndStreamsAndCountsMicroBatches) {
  ASSERT_EQ(train(job("zb", {"parallel.pipeline=2", "parallel.schedule=zb-h1", "batch.global=8",
                             "run.steps=1", "trace.steps=[1]"}),
                  {}),
            ExitCode::finished);
  const json file = trace("zb", 1);
  std::map<std::string, std::set<std::string>> names;
  for (const json& event : events(file, "M")) {
    if (event["args"].contains("name"))
      names[event["name"].get<std::string>()].insert(
          fmt::format("{} {}", event["pid"].get<int>(), event["args"]["name"].get<std::string>()));
  }
  EXPECT_THAT(names["process_name"], UnorderedElementsAreArray({"0 rank 0", "1 rank 1"}));
  EXPECT_THAT(names["thread_name"],
              UnorderedElementsAreArray({"0 compute", "0 send", "0 receive", "0 reduction", "1 compute",
                                         "1 send", "1 receive", "1 reduction"}));
  std::map<int, json> last;
  std::map<int, int> most;
  for (const json& event : events(file, "C")) {
    const int pid = event["pid"].get<int>();
    if (last.count(pid) > 0) {
      EXPECT_GE(event["ts"], last[pid]["ts"]);
    }
    last[pid] = event;
    most[pid] = std::max(most[pid], event["args"]["activations"].get<int>());
  }
  EXPECT_EQ(most[0], 2) << "the first of two ranks is one micro-batch ahead";
  EXPECT_EQ(most[1], 1);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(last[rank]["args"]["activations"], 0);
    EXPECT_EQ(last[rank]["args"]["weight gradients"], 0);
  }
}

TEST_F(StepTraceTest, AFolderThatCannotBeWrittenCostsTheTraceAlone) {
  fs::create_directories(run("full"));
  std::ofstream(run("full") / "trace") << "a file where the folder should be";
  ASSERT_EQ(train(job("full", {"run.steps=2", "trace.steps=[1]"}), {}), ExitCode::finished);
  std::stringstream log;
  log << std::ifstream(run("full") / "logs" / "rank-00000.log").rdbuf();
  EXPECT_THAT(log.str(), HasSubstr("no trace of step 1"));
  EXPECT_EQ(metrics("full").size(), 2u);
}

}  // namespace
}  // namespace penstock
