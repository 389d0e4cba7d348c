#include "trainer/state_snapshot.h"

#include <cstring>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu/device.h"
#include "kernels/device/error.h"
#include "tests/trainer/tiny_training.h"
#include "trainer/backend.h"
#include "trainer/job_plan.h"
#include "trainer/memory_report.h"
#include "trainer/model_state.h"

namespace penstock {
namespace {

checkpoint::Source source(const std::string& name, std::vector<float>& values) {
  return checkpoint::whole(name,
                           Tensor(values.data(), DType::fp32, Shape{static_cast<int64_t>(values.size())}));
}

TEST(StateSnapshot, IsWhatWasThereHoweverSoonItChanges) {
  DeviceOptions options;
  options.mode = StreamMode::shuffled;
  options.strict_events = true;
  const auto device = cpu::make_cpu_device(options);
  const auto stream = device->create_stream("compute", StreamUse::compute);
  StateSnapshot snapshot(*device);
  std::vector<float> a(1000);
  std::vector<float> b(77);
  std::iota(a.begin(), a.end(), 1.0F);
  std::iota(b.begin(), b.end(), 5.0F);
  for (int round = 0; round < 20; ++round) {
    const std::vector<float> first = a;
    const std::vector<float> second = b;
    std::vector<checkpoint::Source> sources{source("b", b), source("a", a)};
    snapshot.reserve(StateSnapshot::bytes(sources));
    const Event& copied = snapshot.take(sources, *stream);
    stream->wait(copied);
    stream->host_task("update", 0, [&] {
      for (float& value : a) value += 1;
      for (float& value : b) value *= 2;
    });
    snapshot.wait();
    EXPECT_EQ(std::memcmp(sources[0].data, second.data(), second.size() * sizeof(float)), 0);
    EXPECT_EQ(std::memcmp(sources[1].data, first.data(), first.size() * sizeof(float)), 0);
    stream->synchronize();
    EXPECT_NE(a, first);
  }
}

TEST(StateSnapshot, TakesNoMoreThanWasReserved) {
  const auto device = cpu::make_cpu_device({});
  const auto stream = device->create_stream("compute", StreamUse::compute);
  StateSnapshot snapshot(*device);
  std::vector<float> values(65);
  std::vector<checkpoint::Source> sources{source("a", values)};
  EXPECT_EQ(StateSnapshot::bytes(sources), 512u);
  snapshot.reserve(256);
  EXPECT_THROW(snapshot.take(sources, *stream), UsageError);
  snapshot.reserve(512);
  EXPECT_EQ(snapshot.reserved(), 512u);
  snapshot.take(sources, *stream);
  snapshot.wait();
}

// What `plan` says of a rank is what its engine will copy.
TEST_F(TrainingTest, TheSnapshotIsPlannedToTheByte) {
  for (const std::vector<std::string>& ranks :
       {std::vector<std::string>{},
        {"parallel.pipeline=3"},
        {"parallel.pipeline=2", "parallel.schedule=zbv", "parallel.chunks=2"},
        {"parallel.pipeline=2", "parallel.schedule=dualpipev"},
        {"parallel.pipeline=2", "parallel.schedule=2bw", "precision.compute=bf16"}}) {
    std::vector<std::string> settings = ranks;
    settings.insert(settings.end(), {"checkpoint.every_steps=1", "batch.global=8"});
    const Job asked = job("run", settings);
    Backend planning = make_backend(asked, 0);
    const PlannedJob planned = planned_job(asked, planning, nullptr);
    const runtime::PipelinePlan plan = runtime::plan_pipeline(planned.request);
    const MemoryReport report = memory_report(planned.job, planning, plan);
    EXPECT_NE(table(report).find("while it is written"), std::string::npos);
    transport::run_inproc(static_cast<int>(plan.ranks.size()), {}, [&](transport::World& world) {
      const transport::AbortOnUnwind abort(world);
      Backend backend = make_backend(asked, world.rank());
      runtime::PipelineEngine engine(*backend.device, backend.math, world, plan);
      const size_t bytes = StateSnapshot::bytes(model_sources(engine.rank().parameters()));
      EXPECT_GT(bytes, 0u);
      EXPECT_EQ(bytes, report.ranks[static_cast<size_t>(world.rank())].snapshot);
    });
    for (const char* without : {"checkpoint.background=false", "checkpoint.every_steps=0"}) {
      std::vector<std::string> other = settings;
      other.emplace_back(without);
      EXPECT_EQ(memory_report(job("run", other), planning, plan).ranks[0].snapshot, 0u) << without;
    }
  }
}

}  // namespace
}  // namespace penstock
