#include "trainer/memory_limit.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/small_job.h"
#include "trainer/job/job_keys.h"
#include "trainer/job_plan.h"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

MemoryReport report_of(const std::vector<size_t>& ranks) {
  MemoryReport report;
  for (const size_t bytes : ranks) {
    report.ranks.emplace_back();
    report.ranks.back().device.allocations.push_back({ArenaTag::parameters, "w", bytes});
  }
  return report;
}

std::string refusal(const MemoryReport& report, const Job& asked) {
  const Backend backend = make_backend(asked, 0);
  try {
    check_memory_limit(report, asked, *backend.device, false);
  } catch (const MemoryLimitError& error) {
    return error.what();
  }
  return "";
}

// What a process happens to hold at its start moves the check by not a byte.
TEST(MemoryLimit, TheSameRunIsAlwaysAnsweredAlike) {
  const size_t arenas = size_t{100} << 20;
  for (const size_t held : {size_t{0}, size_t{15} << 20, size_t{48} << 20, size_t{900} << 20}) {
    MemoryReport report = report_of({arenas});
    report.outside = held;
    EXPECT_EQ(report.total(0), arenas + outside_reserve);
    const double exact = static_cast<double>(arenas + outside_reserve) / (1 << 30);
    EXPECT_EQ(refusal(report, testing::small_job("x", {fmt::format("parallel.memory_limit_gib={}", exact)})),
              "");
    EXPECT_NE(
        refusal(report, testing::small_job("x", {fmt::format("parallel.memory_limit_gib={}", exact - 1e-8)})),
        "");
  }
}

// What the planner may fill and what the check lets pass are the same bytes.
TEST(MemoryLimit, PlansFillWhatTheCheckLetsPass) {
  const Job job = testing::small_job("x", {"parallel.memory_limit_gib=0.25"});
  const Backend backend = make_backend(job, 0);
  const int64_t arenas = device_memory_limit(job, *backend.device, 1);
  EXPECT_EQ(arenas, (int64_t{1} << 28) - static_cast<int64_t>(host_batch_bytes(job) + outside_reserve));
  MemoryReport report = report_of({static_cast<size_t>(arenas)});
  report.host_batches = host_batch_bytes(job);
  EXPECT_EQ(refusal(report, job), "");
  report.ranks[0].device.allocations.push_back({ArenaTag::workspace, "one more", 1});
  EXPECT_THAT(refusal(report, job), HasSubstr("rank 0 needs 0.250 GiB (268435457 bytes): 0.0 MiB too much"));
}

TEST(MemoryLimit, EveryRankThatMissesIsNamed) {
  const Job job = testing::small_job("x", {"parallel.memory_limit_gib=0.125"});
  const std::string text = refusal(report_of({size_t{65} << 20, 1000, size_t{96} << 20}), job);
  EXPECT_THAT(text, AllOf(HasSubstr("parallel.memory_limit_gib = 0.125 (134217728 bytes)"),
                          HasSubstr("pipeline rank 0 needs 0.126 GiB (135266304 bytes): 1.0 MiB too much"),
                          HasSubstr("pipeline rank 2"), HasSubstr("32.0 MiB too much"),
                          Not(HasSubstr("rank 1 ")), HasSubstr("64 MiB of each are reserved")));
}

// Advice is what the job does not do yet.
TEST(MemoryLimit, AdviceFollowsTheJob) {
  const auto advice = [](std::vector<std::string> overrides) {
    overrides.emplace_back("parallel.data=1");
    return memory_advice(testing::small_job("x", overrides));
  };
  EXPECT_EQ(
      advice({}),
      "lower batch.micro (it is 2), set recompute.mode = \"auto\", take more pipeline ranks, or make the "
      "model smaller");
  EXPECT_THAT(advice({"recompute.mode=auto"}), Not(HasSubstr("recompute")));
  EXPECT_THAT(advice({"recompute.mode=full"}), Not(HasSubstr("recompute")));
  EXPECT_THAT(advice({"batch.micro=1"}), Not(HasSubstr("batch.micro")));
  EXPECT_THAT(advice({"parallel.memory_limit_gib=1"}), HasSubstr("or raise the limit"));
  EXPECT_THAT(advice({"parallel.pipeline=2", "parallel.partition=layers"}),
              AllOf(HasSubstr("parallel.partition"), HasSubstr("parallel.schedule = \"auto\"")));
  EXPECT_THAT(advice({"parallel.pipeline=2", "parallel.schedule=auto"}),
              AllOf(Not(HasSubstr("parallel.partition")), Not(HasSubstr("parallel.schedule"))));
}

TEST(MemoryLimit, AProcessThatHoldsMoreThanTheReserveIsSaid) {
  MemoryReport report = report_of({1});
  report.outside = 2 * outside_reserve + (size_t{1} << 20);
  const Job job = testing::small_job("x", {"parallel.memory_limit_gib=1"});
  EXPECT_THAT(outside_warning(report, job, 2), HasSubstr("holds 129.0 MiB outside its arenas"));
  EXPECT_EQ(outside_warning(report, job, 3), "");
  EXPECT_EQ(outside_warning(report, testing::small_job("x"), 2), "") << "no limit, nothing to warn of";
}

TEST(MemoryLimit, TheKeysHelpStatesTheReserve) {
  Job job;
  const std::vector<SectionKeys> sections = keys_of(job);
  const Key* key = find_key(*find_section(sections, "parallel"), "memory_limit_gib");
  ASSERT_NE(key, nullptr);
  EXPECT_THAT(key->help, HasSubstr(fmt::format(" {} MiB reserved", outside_reserve >> 20)));
}

}  // namespace
}  // namespace penstock
