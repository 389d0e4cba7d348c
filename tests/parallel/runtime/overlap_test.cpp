// Gradients are reduced beside the compute. Links between replicas take time, products cost a second each,
// clocks are virtual: every stamp is exact, and what waited for what can be read off them.
#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/cpu/device.h"
#include "kernels/cpu/make_math.h"
#include "kernels/device/clock.h"
#include "tests/parallel/runtime/ranks.h"

namespace penstock::testing {
namespace {

using runtime::Lane;
using runtime::Stamp;
using schedule::InstructionKind;
using schedule::Op;

// Products that take a second on a virtual clock. All other math takes no time.
class TimedLinear final : public math::Linear {
 public:
  explicit TimedLinear(std::unique_ptr<math::Linear> real) : real_(std::move(real)) {}
  const math::LinearShape& shape() const override { return real_->shape(); }
  size_t workspace_bytes() const override { return real_->workspace_bytes(); }
  void forward(Stream& stream, Tensor x, Tensor w, Tensor bias, Tensor y, Tensor workspace) override {
    take_time(stream);
    real_->forward(stream, x, w, bias, y, workspace);
  }
  void backward_input(Stream& stream, Tensor dy, Tensor w, Tensor dx, Tensor workspace) override {
    take_time(stream);
    real_->backward_input(stream, dy, w, dx, workspace);
  }
  void backward_weight(Stream& stream, Tensor dy, Tensor x, Tensor dw, Tensor workspace) override {
    take_time(stream);
    real_->backward_weight(stream, dy, x, dw, workspace);
  }
  void backward_bias(Stream& stream, Tensor dy, Tensor dbias) override {
    real_->backward_bias(stream, dy, dbias);
  }

 private:
  static void take_time(Stream& stream) {
    stream.host_task("product", 1.0, [] {});
  }
  std::unique_ptr<math::Linear> real_;
};

class TimedGemm final : public math::Gemm {
 public:
  explicit TimedGemm(std::unique_ptr<math::Gemm> real) : real_(std::move(real)) {}
  math::Support supports(const math::LinearShape& shape) const override { return real_->supports(shape); }
  std::unique_ptr<math::Linear> plan_linear(const math::LinearShape& shape) override {
    return std::make_unique<TimedLinear>(real_->plan_linear(shape));
  }

 private:
  std::unique_ptr<math::Gemm> real_;
};

// What happened on a rank: instructions without their pointers.
struct Event {
  schedule::Instruction instruction;
  Lane lane = Lane::compute;
  double start = 0;
  double end = 0;
};
using Timeline = std::vector<Event>;

// The first step of every rank. A message between two replicas takes `latency` seconds, others none.
std::vector<Timeline> timelines(const Job& job, double latency) {
  const int pipeline = static_cast<int>(job.request.parallel.pipeline);
  const int replicas = static_cast<int>(job.request.parallel.data);
  transport::InprocOptions options;
  options.links = transport::LinkModel(pipeline * replicas, {});
  const runtime::Topology topology(pipeline, replicas, job.request.parallel.order);
  for (int rank = 0; rank < pipeline; ++rank) {
    for (const int from : topology.replicas_of(rank)) {
      for (const int to : topology.replicas_of(rank)) {
        if (from != to) options.links.set(from, to, {latency});
      }
    }
  }
  std::vector<Timeline> all(static_cast<size_t>(topology.ranks()));
  transport::run_inproc(topology.ranks(), options, [&](transport::World& world) {
    DeviceOptions device_options;
    device_options.rank = world.rank();
    device_options.strict_events = true;
    device_options.clock = make_virtual_clock();
    const auto device = cpu::make_cpu_device(device_options);
    math::Math math = cpu::make_math(*device);
    math.gemm = std::make_unique<TimedGemm>(std::move(math.gemm));
    runtime::PipelineEngine engine(*device, math, world, runtime::plan_pipeline(job.request));
    engine.rank().initialise(engine.stream());
    std::vector<HostBatch> batches = batches_of(job, 0, engine.place().replica);
    const std::vector<model::SideBand> bands = bands_of(batches);
    engine.start_step({0, 1e-2, 100}, bands);
    engine.finish_step();
    Timeline& mine = all[static_cast<size_t>(world.rank())];
    for (const Stamp& stamp : engine.stamps(0))
      mine.push_back({*stamp.instruction, stamp.lane, stamp.start, stamp.end});
  });
  return all;
}

// Forwards, backwards and messages: all that comes before the end of a step but the reductions.
bool is_work(const Event& event) {
  return event.lane != Lane::reduction && event.instruction.kind != InstructionKind::optimizer_step;
}

// How many of the rank's instructions ran at another time.
int moved(const Timeline& a, const Timeline& b) {
  EXPECT_EQ(a.size(), b.size());
  int count = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(to_string(a[i].instruction), to_string(b[i].instruction));
    if (is_work(a[i]) && (a[i].start != b[i].start || a[i].end != b[i].end)) ++count;
  }
  return count;
}

const Event& last_compute(const Timeline& rank, int stage) {
  const auto found = std::find_if(rank.rbegin(), rank.rend(), [&](const Event& event) {
    return event.instruction.kind == InstructionKind::compute && event.instruction.action.stage == stage;
  });
  EXPECT_NE(found, rank.rend());
  return *found;
}

const Event& reduction(const Timeline& rank, int stage) {
  const auto found = std::find_if(rank.rbegin(), rank.rend(), [&](const Event& event) {
    return event.instruction.kind == InstructionKind::reduce_gradients &&
           event.instruction.action.stage == stage;
  });
  EXPECT_NE(found, rank.rend());
  return *found;
}

TEST(Overlap, NoComputeAndNoMessageWaitsForAReduction) {
  for (const auto& [schedule, chunks] :
       {std::pair("gpipe", 1), std::pair("1f1b", 1), std::pair("interleaved", 2), std::pair("zb-h1", 1),
        std::pair("zbv", 2), std::pair("v-half", 2)}) {
    const Job job = make_job(tiny_llama(), 2, schedule, chunks, 6, 2);
    const std::vector<Timeline> free = timelines(job, 0);
    for (const double latency : {0.5, 1000.0}) {
      const std::vector<Timeline> slow = timelines(job, latency);
      for (size_t rank = 0; rank < free.size(); ++rank) {
        EXPECT_EQ(moved(free[rank], slow[rank]), 0)
            << schedule << ", rank " << rank << ", " << latency << " s";
        // The delay is real: every bucket pays it twice, and the optimizer waits for it.
        EXPECT_EQ(slow[rank].back().instruction.kind, InstructionKind::optimizer_step);
        EXPECT_GE(slow[rank].back().end, 2 * latency);
      }
    }
  }
}

// One stage of ten units, which the last backward completes from the head on: the input half takes 16
// products, then the weight half completes a sub-layer every two. A unit is one bucket: its slices arrive a
// latency after they were sent, and are added; then the sums leave, and the next unit's slices may follow
// them.
TEST(Overlap, UnitsAreReducedWhileEarlierUnitsCompute) {
  Job job = make_job(tiny_llama(), 1, "1f1b", 1, 2, 2);
  job.request.parallel.bucket_mib = 64;
  for (const double latency : {0.25, 0.5, 1.5, 8.0}) {
    for (const Timeline& rank : timelines(job, latency)) {
      const Event& backward = last_compute(rank, 0);
      EXPECT_EQ(backward.end - backward.start, 32);
      double lane = 0;
      std::vector<double> done{16};  // the head; then mlp_3, attention_3, …, attention_0, and the embedding
      for (int sublayer = 0; sublayer < 8; ++sublayer) done.push_back(done.back() + 2);
      done.push_back(done.back());
      for (const double unit : done) lane = std::max(lane, unit) + latency;
      EXPECT_EQ(reduction(rank, 0).end, backward.start + lane + latency) << latency;
      if (latency > 0.5) continue;
      EXPECT_LE(reduction(rank, 0).end, backward.end + 2) << "only the last two units are not hidden";
    }
  }
}

// A rank's later chunk is reduced while its earlier one computes.
TEST(Overlap, LateStagesAreReducedWhileEarlierStagesCompute) {
  for (const char* schedule : {"interleaved", "bfs"}) {
    const std::vector<Timeline> ranks = timelines(make_job(tiny_llama(), 2, schedule, 2, 4, 2), 0.125);
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const int stage = static_cast<int>(rank % 2);
      EXPECT_LT(reduction(ranks[rank], stage + 2).end, last_compute(ranks[rank], stage).start) << schedule;
    }
  }
}

// Two windows have memory: a short reduction is done before its window's set is needed again; where it takes
// longer than a window's compute, that compute waits for exactly that.
TEST(Overlap, WindowsWaitOnlyForTheMemoryTheyTake) {
  for (const auto& [schedule, chunks] : {std::pair("1f1b", 1), std::pair("zb-h1", 1), std::pair("zbv", 2)}) {
    SCOPED_TRACE(schedule);
    Job job = make_job(tiny_llama(), 2, schedule, chunks, 8, 2);
    job.request.parallel.reduce_every = 2;
    job.request.parallel.bucket_mib = 64;
    const std::vector<Timeline> free = timelines(job, 0);
    const std::vector<Timeline> quick = timelines(job, 1.0 / 1024);
    const std::vector<Timeline> slow = timelines(job, 64);
    for (size_t rank = 0; rank < free.size(); ++rank) {
      EXPECT_EQ(moved(free[rank], quick[rank]), 0) << rank;
      EXPECT_GT(moved(free[rank], slow[rank]), 0) << rank;
      const double first_sum = std::find_if(slow[rank].begin(), slow[rank].end(), [](const Event& event) {
                                 return event.instruction.kind == InstructionKind::reduce_gradients;
                               })->end;
      for (const Event& event : slow[rank]) {
        // Micro-batches 0 to 3 have sets of their own.
        const bool opens = event.instruction.kind == InstructionKind::compute &&
                           event.instruction.action.op != Op::forward &&
                           event.instruction.action.micro_batch == 4;
        EXPECT_TRUE(!opens || event.start >= first_sum) << to_string(event.instruction);
      }
    }
  }
}

}  // namespace
}  // namespace penstock::testing
