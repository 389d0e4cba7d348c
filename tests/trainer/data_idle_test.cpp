// What a run says about waiting for its data: nothing where a step's batches are read before the device is
// done with the step before, all of it where they are not. Both are made so by hand-overs, whatever the
// machine does meanwhile.
#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "tests/trainer/accounted_run.h"

namespace penstock {
namespace {

using nlohmann::json;

struct DataIdle : AccountedRun {
  static constexpr int64_t steps = 12;
  // Only where nothing hands over: the test has failed then, and does not hang.
  static constexpr std::chrono::seconds patience{30};

  Job asked(const std::string& name, int ranks) const {
    return job(name, {fmt::format("run.steps={}", steps), fmt::format("parallel.pipeline={}", ranks)});
  }

  // ms of `data` idle of every rank, of the steps whose data could be read ahead.
  std::vector<double> data_idle(const std::string& name) const {
    const auto lines = metrics(name);
    EXPECT_EQ(lines.size(), static_cast<size_t>(steps));
    std::vector<double> idle;
    for (size_t at = 1; at < lines.size(); ++at) {
      for (const json& rank : lines[at]["ranks"]) idle.push_back(rank.value("data_ms", 0.0));
    }
    return idle;
  }

  std::mutex mutex;
  std::condition_variable changed;
};

// A loader that keeps up: the device does not begin a step before the next one's data is there.
TEST_F(DataIdle, IsNothingWhereBatchesAreReadAhead) {
  for (const int ranks : {1, 2}) {
    const std::string name = fmt::format("ahead-{}", ranks);
    std::array<int64_t, 2> read{-1, -1};
    int late = 0;
    TrainOptions options;
    options.at_read = [&](const ReadMoment& moment) {
      if (!moment.accounted) return;
      const std::lock_guard lock(mutex);
      read.at(static_cast<size_t>(moment.rank)) = moment.step;
      changed.notify_all();
    };
    options.at_step = [&](const StepMoment& moment) {
      if (moment.computed || moment.step + 1 == steps) return;
      moment.engine.stream().host_task("held", 0, [&, rank = moment.rank, next = moment.step + 1] {
        std::unique_lock lock(mutex);
        const auto there = [&] { return read.at(static_cast<size_t>(rank)) >= next; };
        if (late == 0 && !changed.wait_for(lock, patience, there)) ++late;
      });
    };
    ASSERT_EQ(train(asked(name, ranks), options), ExitCode::finished);
    EXPECT_EQ(late, 0) << "the next step's data is not read while the device works";
    expect_whole(metrics(name), static_cast<size_t>(ranks));
    EXPECT_EQ(data_idle(name), std::vector<double>((steps - 1) * static_cast<size_t>(ranks), 0.0));
  }
}

// A loader that does not: every read goes on for 2 ms after the device has nothing left to do.
TEST_F(DataIdle, IsWhatTheDeviceWaitsForALateLoader) {
  constexpr std::chrono::milliseconds behind{2};
  TrainOptions options;
  options.at_read = [&](const ReadMoment& moment) {
    if (moment.accounted || moment.step == 0) return;
    bool idle = false;
    moment.engine.stream().host_task("idle from here", 0, [&] {
      const std::lock_guard lock(mutex);
      idle = true;
      changed.notify_all();
    });
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, patience, [&] { return idle; }));
    std::this_thread::sleep_for(behind);
  };
  ASSERT_EQ(train(asked("late", 1), options), ExitCode::finished);
  for (const double idle : data_idle("late")) EXPECT_GE(idle, 1.99);
}

}  // namespace
}  // namespace penstock
