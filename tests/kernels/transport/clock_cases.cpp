#include <array>
#include <chrono>
#include <cmath>
#include <memory>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/device/error.h"
#include "kernels/transport/clock_alignment.h"
#include "tests/kernels/transport/contract.h"

namespace penstock::transport {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

double machine_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The machine's clock, which all ranks of a test share, set wrong and running at another rate.
class WrongClock final : public Clock {
 public:
  WrongClock(double rate, double ahead) : rate_(rate), ahead_(ahead) {}
  bool is_virtual() const override { return false; }
  double now() const override { return shows(machine_seconds()); }
  double shows(double machine) const { return (machine - start_) * rate_ + start_ + ahead_; }

 private:
  const double rate_;
  const double ahead_;
  const double start_ = machine_seconds();
};

void find_what_a_clock_shows_against_rank_zero(Rank& rank) {
  if (rank.device().options().clock->is_virtual()) return;
  // Far apart, and drifting a thousand times as fast as a bad crystal.
  const WrongClock rank_zero(1, 5000);
  const int r = rank.index();
  const auto clock = r == 0 ? std::make_shared<WrongClock>(rank_zero)
                            : std::make_shared<WrongClock>(1 + 0.05 * r, 5000 - 1000.0 * r);
  DeviceOptions options;
  options.rank = r;
  options.mode = rank.device().options().mode;
  options.clock = clock;
  const auto device = cpu::make_cpu_device(options);
  ClockAlignment alignment(rank.world().hosts(), *device, false);
  EXPECT_THAT([&] { static_cast<void>(alignment.offset(0)); },
              ThrowsMessage<UsageError>(HasSubstr("before they were measured")));

  std::array<double, 3> between{};
  alignment.measure();
  for (double& at : between) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    at = machine_seconds();
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    alignment.measure();
  }
  for (const double at : between) {
    const double ours = clock->shows(at);
    const double true_offset = ours - rank_zero.shows(at);
    const double error = alignment.error(ours);
    EXPECT_LE(std::abs(alignment.offset(ours) - true_offset), error + 1e-9) << "rank " << r;
    EXPECT_DOUBLE_EQ(alignment.to_rank_zero(ours), ours - alignment.offset(ours));
    if (r == 0) {
      EXPECT_EQ(alignment.offset(ours), 0);
      EXPECT_EQ(error, 0);
    } else {
      EXPECT_GT(error, 0);
      EXPECT_LT(error, 100);
    }
  }
  // Before and after what was measured: the nearest measurement.
  EXPECT_EQ(alignment.offset(-1e6), alignment.offset(-2e6));
  EXPECT_EQ(alignment.offset(1e9), alignment.offset(2e9));
  if (r > 0) {
    EXPECT_LT(alignment.offset(-1e6), alignment.offset(1e9));
  }
}

void forget_all_but_the_latest_measurements(Rank& rank) {
  if (rank.device().options().clock->is_virtual()) return;
  DeviceOptions options;
  options.rank = rank.index();
  options.mode = rank.device().options().mode;
  options.clock = std::make_shared<WrongClock>(1 + 0.05 * rank.index(), 0);
  const auto device = cpu::make_cpu_device(options);
  ClockAlignment alignment(rank.world().hosts(), *device, false);
  alignment.measure();
  const double first = alignment.offset(0);
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  for (size_t i = 0; i < ClockAlignment::kept_measurements - 1; ++i) alignment.measure();
  EXPECT_EQ(alignment.offset(0), first);
  alignment.measure();
  EXPECT_EQ(alignment.offset(0) == first, rank.index() == 0);
}

void measure_nothing_where_ranks_share_a_clock(Rank& rank) {
  const bool shared = rank.size() == 1 || rank.world().transport() == "inproc";
  EXPECT_EQ(ranks_share_clock(rank.world(), rank.device()), shared);
  if (!shared) return;
  ClockAlignment alignment(rank.world(), rank.device());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(alignment.offset(17), 0);
    EXPECT_EQ(alignment.error(17), 0);
    EXPECT_EQ(alignment.to_rank_zero(17), 17);
    alignment.measure();
  }
  if (rank.device().options().clock->is_virtual()) return;
  // The clocks of two devices of a process are two objects, and one time.
  const auto other = make_real_clock();
  const double before = rank.device().options().clock->now();
  const double between = other->now();
  EXPECT_LE(before, between);
  EXPECT_LE(between, rank.device().options().clock->now());
}

constexpr std::array cases{
    ContractCase{"ClocksFindWhatOneShowsAgainstRankZero", false, find_what_a_clock_shows_against_rank_zero},
    ContractCase{"ClocksForgetOldMeasurements", false, forget_all_but_the_latest_measurements},
    ContractCase{"ClocksThatAreSharedAreNotMeasured", false, measure_nothing_where_ranks_share_a_clock},
};

}  // namespace

std::span<const ContractCase> clock_cases() {
  return cases;
}

}  // namespace penstock::transport
