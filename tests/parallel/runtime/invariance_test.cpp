// Contract C1: losses, gradient norms and parameters after three steps are the same bits for every number of
// ranks, schedule, partition, recompute mode and transport; with several replicas, the same as those replicas
// without a pipeline. (Replicas change the order of sums, so that another D gives other bits.)
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/parallel/runtime/ranks.h"

namespace penstock::testing {
namespace {

struct Kind {
  std::string schedule;
  int chunks = 1;
  int slack = 0;
};

std::vector<Kind> kinds() {
  return {{"gpipe"}, {"1f1b"},   {"1f1b", 1, 2}, {"interleaved", 2}, {"bfs", 2},       {"zb-h1"},
          {"zb-h2"}, {"zbv", 2}, {"v-half", 2},  {"v-min", 2},       {"dualpipev", 2}, {"hanayo", 2}};
}

class Schedules : public ::testing::TestWithParam<std::tuple<int, int>> {
 protected:
  ModelSection model() const { return std::get<0>(GetParam()) == 0 ? tiny_gpt2() : tiny_llama(); }
  Kind kind() const { return kinds()[static_cast<size_t>(std::get<1>(GetParam()))]; }
};

TEST_P(Schedules, SameBitsAsOneRank) {
  const auto job_of = [&](int pipeline, int micro_batches, int replicas) {
    Job job = make_job(model(), pipeline, kind().schedule, kind().chunks, micro_batches, replicas);
    job.request.parallel.warmup_slack = kind().slack;
    return job;
  };
  int ran = 0;
  for (const int micro_batches : {3, 8}) {
    const Result expected = train_locally(job_of(1, micro_batches, 1));
    for (const int pipeline : {1, 2, 3, 4}) {
      SCOPED_TRACE(fmt::format("P = {}, M = {}", pipeline, micro_batches));
      const Job job = job_of(pipeline, micro_batches, 1);
      try {
        runtime::plan_pipeline(job.request);
      } catch (const schedule::ScheduleError&) {
        continue;  // the definition asks for other micro-batches
      }
      ++ran;
      expect_same(train(job), expected);
    }
  }
  EXPECT_GE(ran, 4);
}

INSTANTIATE_TEST_SUITE_P(All, Schedules, ::testing::Combine(::testing::Range(0, 2), ::testing::Range(0, 12)),
                         [](const auto& test) {
                           const Kind kind = kinds()[static_cast<size_t>(std::get<1>(test.param))];
                           std::string name = std::get<0>(test.param) == 0 ? "gpt2_" : "llama_";
                           for (const char letter : kind.schedule) name += letter == '-' ? '_' : letter;
                           return name + (kind.slack > 0 ? "_slack" : "");
                         });

}  // namespace
}  // namespace penstock::testing
