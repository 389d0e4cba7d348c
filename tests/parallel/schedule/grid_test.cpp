// Every schedule over P, M and v: it is generated, valid, lowered to a valid program that cannot deadlock,
// and computes what its definition says; or it is refused with the smallest M that would do.
#include <atomic>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/parallel/schedule/lowered.h"

namespace penstock::schedule {
namespace {

struct Case {
  const ScheduleKind* kind;
  ScheduleOptions options;
};

std::string name(const Case& at) {
  return std::string(at.kind->name) + " P = " + std::to_string(at.options.ranks) +
         " M = " + std::to_string(at.options.micro_batches) + " v = " + std::to_string(at.options.chunks) +
         " slack = " + std::to_string(at.options.warmup_slack);
}

std::vector<Case> grid() {
  std::vector<Case> cases;
  for (const int P : {1, 2, 3, 4, 5, 6, 8, 12, 16}) {
    for (int M = 1; M <= 4 * P; ++M) {
      for (const ScheduleKind& kind : schedule_kinds()) {
        for (int v = std::max(1, kind.min_chunks); v <= std::min(4, kind.max_chunks); ++v) {
          cases.push_back({&kind, {P, M, v, 0, 0, kind.versions}});
        }
        if (kind.name == std::string("1f1b")) {
          cases.push_back({&kind, {P, M, 1, 1}});
          cases.push_back({&kind, {P, M, 1, 3}});
        }
      }
    }
  }
  return cases;
}

// What is wrong with a case; "" if it is valid, "refused" if it is refused.
std::string check(const Case& at) {
  const std::string refusal = at.kind->refusal(at.options);
  Schedule schedule;
  try {
    schedule = generate(at.kind->name, at.options);
  } catch (const ScheduleError& error) {
    return refusal.empty() ? std::string("refused without a reason: ") + error.what() : "refused";
  }
  if (!refusal.empty()) return "generated, though: " + refusal;
  LoweringOptions options;
  options.receive_lead = at.options.micro_batches % 3;
  options.tied_embeddings = at.options.micro_batches % 2 == 0;
  options.sharded_optimizer = at.options.micro_batches % 5 == 0;
  options.reduce_every = at.options.micro_batches % 4 == 3 ? 2 : 0;
  const Costs costs = uniform_costs(schedule.ranks, schedule.chunks, {1, 1, 1}, 0.1);
  const Program program = lower(schedule, costs, options);
  const std::vector<Violation> found = validate(program);
  if (!found.empty()) return found[0].text();
  // The queues and the one order cost nothing: with room for every message the program takes the ideal time.
  const Measures measures = measure(program, simulate(program, costs));
  if (measures.makespan < 3.0 * at.options.micro_batches * at.options.steps - 1e-9)
    return "is faster than its work";
  return "";
}

TEST(Grid, EveryScheduleIsValid) {
  const std::vector<Case> cases = grid();
  std::atomic<size_t> next{0};
  std::atomic<int> valid{0};
  std::mutex mutex;
  const auto work = [&] {
    for (size_t i = next++; i < cases.size(); i = next++) {
      std::string wrong;
      try {
        wrong = check(cases[i]);
      } catch (const std::exception& error) {
        wrong = error.what();
      }
      if (wrong.empty()) ++valid;
      if (wrong.empty() || wrong == "refused") continue;
      const std::lock_guard<std::mutex> lock(mutex);
      ADD_FAILURE() << name(cases[i]) << ": " << wrong;
    }
  };
  std::thread second(work);
  work();
  second.join();
  EXPECT_GT(valid, 4000);
}

// Every refusal because of M names a number that works, and the number below does not.
TEST(Grid, RefusalsNameTheSmallestM) {
  const std::vector<std::pair<const char*, std::vector<int>>> smallest{
      {"interleaved", {1, 2, 3, 4, 5}}, {"zb-h2", {2, 4, 6, 8, 10}},  {"dualpipe", {0, 4, 0, 8, 0}},
      {"dualpipev", {2, 4, 6, 8, 10}},  {"chimera", {0, 2, 0, 2, 0}}, {"2bw", {1, 2, 3, 4, 5}},
  };
  for (const auto& [schedule, numbers] : smallest) {
    for (int P = 1; P <= 5; ++P) {
      const int M = numbers[static_cast<size_t>(P) - 1];
      if (M == 0) {
        try {
          generate(schedule, {P, 32});
          ADD_FAILURE() << schedule << " on " << P;
        } catch (const ScheduleError& error) {
          EXPECT_THAT(error.what(), testing::HasSubstr("even number of pipeline ranks"));
        }
        continue;
      }
      EXPECT_NO_THROW(generate(schedule, {P, M})) << schedule << " on " << P;
      if (M == 1) continue;
      try {
        generate(schedule, {P, M - 1});
        ADD_FAILURE() << schedule << " on " << P << " takes " << M - 1;
      } catch (const ScheduleError& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("at least " + std::to_string(M) + " micro-batches"));
      }
    }
  }
}

TEST(Grid, OptionsOutOfRangeAreRefused) {
  const auto refused = [](const char* schedule, const ScheduleOptions& options, const char* reason) {
    try {
      generate(schedule, options);
      ADD_FAILURE() << schedule << " should be refused: " << reason;
    } catch (const ScheduleError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(reason));
    }
  };
  refused("1f1b", {0, 8}, "P = 0 is out of range: 1 to 4096");
  refused("1f1b", {1000000000, 8}, "out of range");
  refused("1f1b", {4, -1}, "M = -1 is out of range");
  refused("gpipe", {4096, 1 << 20}, "at most");
  refused("bfs", {4096, 1, 256}, "P * v = 1048576 is out of range: 1 to 65536");
  refused("1f1b", {4, 8, 2}, "has exactly 1 chunk");
  refused("zbv", {4, 8, 3}, "has exactly 2 chunk");
  refused("hanayo", {4, 8, 3}, "even number of chunks");
  refused("gpipe", {4, 8, 1, 1}, "no warm-up slack");
  refused("1f1b", {4, 8, 1, 0, 0, 2}, "flushed after every step");
  refused("dualpipe", {4, 9}, "10 would do");
  refused("interleaved", {4, 9, 2, 0, 6}, "cannot take groups of 6");
  refused("interleaved", {4, 9, 2, 0, 3}, "cannot take groups of 3");
  refused("1f1", {4, 8}, "did you mean \"1f1b\"?");
  refused("interleave", {4, 8}, "did you mean \"interleaved\"?");
}

}  // namespace
}  // namespace penstock::schedule
