#include "parallel/runtime/unit_profiler.h"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <utility>

#include "model/memory_plan.h"
#include "parallel/runtime/lone_unit.h"
#include "parallel/runtime/model_footprint.h"
#include "parallel/runtime/model_stage.h"

namespace penstock::runtime {

namespace {

// Calls `once` until the effort is made; it returns the seconds that count towards least_seconds.
void repeat(const MeasuringEffort& effort, const std::function<double(bool counts)>& once) {
  for (int i = 0; i < effort.warm_up; ++i) once(false);
  double seconds = 0;
  for (int i = 0; i < effort.most && (i < effort.repetitions || seconds < effort.least_seconds); ++i)
    seconds += once(true);
}

// The boundary's message, both ways on one stream.
class Traffic {
 public:
  Traffic(LoneUnit& unit, Device& device, transport::Communicator& between, std::optional<int> peer)
      : between_(between), peer_(peer), stream_(device.create_stream("traffic", StreamUse::transfer)) {
    const auto bytes = static_cast<int64_t>(boundary_bytes(unit.rank().config()));
    const auto claim = [&](const char* name) {
      const Tensor made = unit.rank().memory().claim(ArenaTag::communication, name, DType::u8, Shape{bytes});
      stream_->fill_zero(made.data, made.bytes());
      return made;
    };
    sent_ = claim("traffic.sent");
    received_ = claim("traffic.received");
    stream_->synchronize();
  }

  static void add_memory(model::RankConfig& config) {
    for (const char* name : {"traffic.sent", "traffic.received"})
      config.runtime_memory.push_back({ArenaTag::communication, name, boundary_bytes(config)});
  }

  void enqueue(int messages) {
    for (int i = 0; peer_ && i < messages; ++i)
      between_.exchange(*stream_,
                        {transport::send_to(*peer_, sent_), transport::receive_from(*peer_, received_)});
  }
  Stream& stream() { return *stream_; }

 private:
  transport::Communicator& between_;
  std::optional<int> peer_;
  std::unique_ptr<Stream> stream_;
  Tensor sent_;
  Tensor received_;
};

// When each of some forwards in a row began, and the last ended.
void enqueue_forwards(LoneUnit& unit, std::vector<double>& stamps) {
  unit.stream().stamp(stamps.data());
  for (size_t i = 1; i < stamps.size(); ++i) {
    unit.forward();
    unit.stream().stamp(&stamps[i]);
  }
}

// Seconds of those that lie between `first` and `last`.
std::vector<double> durations(const std::vector<double>& stamps, double first, double last) {
  std::vector<double> seconds;
  for (size_t i = 1; i < stamps.size(); ++i) {
    if (stamps[i - 1] >= first && stamps[i] <= last) seconds.push_back(stamps[i] - stamps[i - 1]);
  }
  return seconds;
}

}  // namespace

planner::Timing timing_of(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const size_t count = samples.size();
  const size_t quarter = count / 4;
  planner::Timing timing;
  timing.median = count % 2 == 1 ? samples[count / 2] : 0.5 * (samples[count / 2 - 1] + samples[count / 2]);
  timing.spread = samples[count - 1 - quarter] - samples[quarter];
  timing.samples = static_cast<int64_t>(count);
  return timing;
}

UnitTimings measure_unit(Device& device, math::Math& math, const model::RankConfig& common, int unit,
                         RecomputeMode mode, const MeasuringEffort& effort) {
  LoneUnit measured(device, math, one_unit(common, unit, mode));
  Stream& stream = measured.stream();
  std::array<std::vector<double>, 5> samples;
  repeat(effort, [&](bool counts) {
    // start, F, R, I, W, optimizer
    std::array<double, 6> stamps{};
    stream.stamp(&stamps[0]);
    measured.forward();
    stream.stamp(&stamps[1]);
    measured.backward_input(&stamps[2]);
    stream.stamp(&stamps[3]);
    measured.backward_weight();
    stream.stamp(&stamps[4]);
    measured.optimizer_step();
    stream.stamp(&stamps[5]);
    stream.synchronize();
    for (size_t i = 0; counts && i < samples.size(); ++i) samples[i].push_back(stamps[i + 1] - stamps[i]);
    return stamps[5] - stamps[0];
  });
  UnitTimings timings;
  timings.forward = timing_of(samples[0]);
  timings.recompute = timing_of(samples[1]);
  timings.backward_input = timing_of(samples[2]);
  timings.backward_weight = timing_of(samples[3]);
  timings.optimizer_step = timing_of(samples[4]);
  return timings;
}

planner::Timing measure_reduction(Device& device, math::Math& math, const model::RankConfig& common, int unit,
                                  transport::Communicator& replicas, ReductionOptions options,
                                  const MeasuringEffort& effort) {
  options.windows = {};  // a window is a step of fewer micro-batches
  options.copies = 1;    // over replicas alone
  model::RankConfig config = one_unit(common, unit, RecomputeMode::none);
  config.runtime_memory = reduction_memory(config, options);
  LoneUnit measured(device, math, config);
  GradientReducer reducer(measured.rank(), replicas, options);
  ModelStage stage(measured.rank(), 0, options.windows, true, false);
  const auto reduction = device.create_stream("measured reduction", StreamUse::transfer);
  StageCall last;
  last.last = true;
  std::vector<double> samples;
  const int repetitions = effort.warm_up + effort.repetitions;  // as many on every replica
  for (int i = 0; i < repetitions; ++i) {
    std::array<double, 2> stamps{};
    stage.backward_weight(measured.stream(), last);
    measured.stream().synchronize();
    replicas.barrier(*reduction);
    reduction->stamp(&stamps[0]);
    reducer.reduce(*reduction, stage, unit, unit + 1);
    reduction->stamp(&stamps[1]);
    reduction->synchronize();
    if (i >= effort.warm_up) samples.push_back(stamps[1] - stamps[0]);
  }
  return timing_of(samples);
}

std::optional<double> measure_traffic_slowdown(Device& device, math::Math& math,
                                               const model::RankConfig& common, int unit,
                                               transport::World& world, transport::Communicator& between,
                                               std::optional<int> peer, double message_seconds,
                                               const MeasuringEffort& effort) {
  // What a stream takes without holding up the host, who has two of them to fill.
  constexpr int queued_messages = 200;
  constexpr double most_messages = 20000;
  model::RankConfig config = one_unit(common, unit, RecomputeMode::none);
  Traffic::add_memory(config);
  LoneUnit measured(device, math, config);
  Traffic traffic(measured, device, between, peer);
  std::vector<double> stamps(static_cast<size_t>(effort.repetitions) + 1);
  for (int warm_up = 0; warm_up < 2; ++warm_up) {
    enqueue_forwards(measured, stamps);
    measured.stream().synchronize();
  }
  const double quiet = timing_of(durations(stamps, stamps.front(), stamps.back())).median;
  // Traffic is to last longer than all forwards; as many messages on all ranks.
  std::array<double, 1> messages{1.5 * (stamps.back() - stamps.front()) / message_seconds + 2};
  world.all_reduce(messages, transport::Reduction::maximum);
  const int count = static_cast<int>(std::min(messages[0], most_messages));
  std::array<double, 2> passing{};
  traffic.stream().stamp(&passing[0]);
  traffic.enqueue(std::min(count, queued_messages));
  enqueue_forwards(measured, stamps);
  traffic.enqueue(count - std::min(count, queued_messages));
  traffic.stream().stamp(&passing[1]);
  traffic.stream().synchronize();
  measured.stream().synchronize();
  if (!peer) return std::nullopt;
  std::vector<double> busy = durations(stamps, passing[0], passing[1]);
  if (busy.empty()) busy.push_back(stamps[1] - stamps[0]);
  return std::max(0.0, timing_of(busy).median / quiet - 1);
}

}  // namespace penstock::runtime
