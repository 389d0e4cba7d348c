// Known delays between processes, on the real clock: the real executor, MPI's messages, clocks that are
// aligned, records that travel. Each delay lands on its cause and its culprit. Actions sleep, so that ranks
// may outnumber processors; every delay is many times what a busy machine adds.
#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/cpu/device.h"
#include "kernels/transport/clock_alignment.h"
#include "kernels/transport/mpi_world.h"
#include "tests/trainer/replay/mpi/slow_link_world.h"
#include "tests/trainer/replay/replayed.h"
#include "trainer/accounting/accountant.h"
#include "trainer/accounting/record_gathering.h"
#include "trainer/replay/rank_times.h"

namespace penstock::testing {
namespace {

using accounting::Culprit;
using accounting::Part;
using accounting::RankAccount;
using accounting::RankTimes;
using accounting::StepAccount;
using replay::RankStep;

constexpr int micro_batches = 8;
constexpr double action = 0.01;
constexpr std::chrono::milliseconds link_delay{100};

void align(RankTimes& times, double offset) {
  const auto to_rank_zero = [&](double& time) { time -= time == 0 ? 0 : offset; };
  for (accounting::InstructionTimes& at : times.instructions) {
    for (double* time : {&at.enqueued, &at.start, &at.middle, &at.end}) to_rank_zero(*time);
  }
  for (accounting::HostInterval& each : times.host) {
    to_rank_zero(each.begin);
    to_rank_zero(each.end);
  }
}

/// A step of 1F1B; on rank 0 its account. `disturbance`: as replays read it; empty: none.
std::optional<StepAccount> run(transport::World& world, const std::string& disturbance,
                               const SlowLink& slow) {
  const schedule::Schedule order = schedule::generate("1f1b", {world.size(), micro_batches});
  schedule::Costs costs = replay::even_costs(order, {action, action, action});
  costs.optimizer_step = action;
  const schedule::Program program = lower(order, costs, {});
  std::vector<runtime::Disturbance> disturbances;
  if (!disturbance.empty()) disturbances.push_back(runtime::read_disturbance(disturbance));
  const runtime::ReplayTimes times(program, costs, disturbances);
  DeviceOptions options;
  options.rank = world.rank();
  options.mode = StreamMode::queued;
  const auto device = cpu::make_cpu_device(options);
  SlowLinkWorld with_slow_link(world, slow);
  runtime::ReplayEngine engine(*device, with_slow_link, with_slow_link, program, times);
  transport::ClockAlignment clocks(world, *device);
  std::vector<int> pipeline;
  for (int rank = 0; rank < world.size(); ++rank) pipeline.push_back(rank);
  accounting::RecordGathering gathering(world, *device, {pipeline}, program);
  clocks.measure();
  engine.start_step(0);
  engine.finish_step();
  RankStep own;
  own.times = engine.times();
  own.stamps.assign(engine.stamps().begin(), engine.stamps().end());
  gathering.own() = replay::times_of(own, program, times, 0, world.rank());
  gathering.own().recompute.resize(1);
  align(gathering.own(), clocks.offset(device->options().clock->now()));
  gathering.send();
  const auto ranks = gathering.receive();
  if (!gathering.leads()) return std::nullopt;
  return accounting::Accountant(program).account(ranks, std::nullopt);
}

double seconds_of(const std::vector<Culprit>& culprits, int rank, int to = -1) {
  double seconds = 0;
  for (const Culprit& each : culprits) seconds += each.rank == rank && each.to == to ? each.seconds : 0;
  return seconds;
}

void expect_root(const StepAccount& account, int culprit, int to, double least) {
  for (int rank = 0; rank < static_cast<int>(account.ranks.size()); ++rank) {
    const RankAccount& at = account.ranks[static_cast<size_t>(rank)];
    EXPECT_NEAR(at.parts.all(), account.seconds(), 1e-6) << rank;
    if (rank == culprit || rank == to) continue;
    ASSERT_NE(at.root(), nullptr) << rank;
    EXPECT_EQ(at.root()->rank, culprit) << rank;
    EXPECT_EQ(at.root()->to, to) << rank;
    EXPECT_GT(seconds_of(at.roots, culprit, to), least) << rank;
  }
}

void slow_rank(transport::World& world, int culprit) {
  const auto account = run(world, fmt::format("rank {} slower 800%", culprit), {});
  if (!account) return;
  SCOPED_TRACE("slow rank");
  const double more = 8 * action * 3 * micro_batches;
  expect_root(*account, culprit, -1, more / 2);
  for (int rank = 0; rank < world.size(); ++rank) {
    const double busy = account->ranks[static_cast<size_t>(rank)].parts.busy();
    if (rank == culprit) {
      EXPECT_GT(busy, more);
    } else {
      EXPECT_LT(busy, more) << rank;
    }
  }
}

// The link towards the culprit. What is behind it waits for the link, not for the rank before it.
void slow_link(transport::World& world, int destination) {
  const int source = destination - 1;
  const auto account = run(world, "", {source, destination, link_delay});
  if (!account) return;
  SCOPED_TRACE("slow link");
  const double delay = 1e-3 * static_cast<double>(link_delay.count());
  const RankAccount& there = account->ranks[static_cast<size_t>(destination)];
  EXPECT_GT(there.parts[Part::transfer], delay * micro_batches / 2);
  EXPECT_GT(seconds_of(there.links, source, destination), delay * micro_batches / 2);
  for (int rank = 0; rank < world.size(); ++rank) {
    const RankAccount& at = account->ranks[static_cast<size_t>(rank)];
    EXPECT_NEAR(at.parts.all(), account->seconds(), 1e-6) << rank;
    if (rank == destination) continue;
    EXPECT_LT(at.parts[Part::transfer] + at.parts[Part::buffer], delay * micro_batches / 2) << rank;
    ASSERT_NE(at.root(), nullptr) << rank;
    EXPECT_EQ(at.root()->rank, source) << rank;
    EXPECT_EQ(at.root()->to, destination) << rank;
  }
}

void slow_data(transport::World& world, int culprit) {
  const auto account = run(world, fmt::format("rank {} data +1s", culprit), {});
  if (!account) return;
  SCOPED_TRACE("slow data");
  expect_root(*account, culprit, -1, 0.6);
  for (int rank = 0; rank < world.size(); ++rank) {
    const accounting::PartSeconds& parts = account->ranks[static_cast<size_t>(rank)].parts;
    if (rank == culprit) {
      EXPECT_GT(parts[Part::data], 0.6);
    } else {
      EXPECT_EQ(parts[Part::data], 0) << rank;
    }
  }
}

void slow_host(transport::World& world, int culprit) {
  const auto account = run(world, fmt::format("rank {} host +80ms", culprit), {});
  if (!account) return;
  SCOPED_TRACE("slow host");
  const double late = 0.08 * 2 * micro_batches;
  expect_root(*account, culprit, -1, late / 2);
  for (int rank = 0; rank < world.size(); ++rank) {
    const double host = account->ranks[static_cast<size_t>(rank)].parts[Part::host];
    if (rank == culprit) {
      EXPECT_GT(host, 0.75 * late);
    } else {
      EXPECT_LT(host, late / 2) << rank;
    }
  }
}

}  // namespace
}  // namespace penstock::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  try {
    const auto world = penstock::transport::make_mpi_world();
    // Neither the first of several, nor, where there are four, the last.
    const int culprit = world->size() / 2;
    penstock::testing::slow_rank(*world, culprit);
    penstock::testing::slow_link(*world, culprit);
    penstock::testing::slow_data(*world, culprit);
    penstock::testing::slow_host(*world, culprit);
    std::vector<int64_t> failed{::testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed() ? 1 : 0};
    world->all_reduce(failed, penstock::transport::Reduction::maximum);
    return static_cast<int>(failed[0]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
