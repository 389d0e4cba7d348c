#include "trainer/replay/replay_run.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/cpu/device.h"
#include "kernels/device/error.h"
#include "kernels/transport/inproc/inproc_world.h"
#include "trainer/replay/replay_links.h"

namespace penstock::replay {

using runtime::ReplayEngine;
using runtime::Stamp;

namespace {

DeviceOptions device_options(int rank, const ReplayOptions& options, std::shared_ptr<Clock> clock) {
  DeviceOptions made;
  made.rank = rank;
  made.mode = options.sleeping && options.mode == StreamMode::inline_now ? StreamMode::queued : options.mode;
  made.strict_events = true;
  made.clock = std::move(clock);
  return made;
}

// Behind a step that a pause or the end follows the pipeline is drained.
bool drains(const runtime::ReplayTimes& times, const ReplayOptions& options, uint64_t step) {
  using Kind = runtime::Disturbance::Kind;
  return options.rolling == nullptr || step + 1 == options.first_step + options.steps ||
         times.pause(step + 1, Kind::evaluation) > 0 || times.pause(step + 1, Kind::checkpoint) > 0;
}

void run_step(ReplayEngine& engine, uint64_t step, bool drains) {
  if (engine.started_steps() == 0) engine.start_step(step);
  if (!drains) engine.start_step(step + 1);
  engine.finish_step();
}

// The copy names the program's instructions, which outlive the engine.
void copy_step(const ReplayEngine& engine, const schedule::RankProgram& program, RankStep& to) {
  to.times = engine.times();
  to.stamps.assign(engine.stamps().begin(), engine.stamps().end());
  for (size_t i = 0; i < to.stamps.size(); ++i) to.stamps[i].instruction = &program.instructions[i];
  to.follows = !std::exchange(to.drains, engine.started_steps() == 0);
  to.optimizer_before = engine.optimizer_before();
}

// What a rank measured, as bytes for another process.
std::string pack(const ReplayEngine& engine, double zero) {
  const runtime::StepTimes& at = engine.times();
  std::vector<double> values{at.begin, at.evaluated, at.checkpointed, at.loaded, at.end};
  for (const Stamp& stamp : engine.stamps())
    values.insert(values.end(), {stamp.enqueued, stamp.start, stamp.end, stamp.middle});
  for (double& value : values) {
    if (value != 0) value -= zero;  // 0: nobody looked
  }
  std::string bytes(values.size() * sizeof(double), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

RankStep unpack(std::string_view bytes, const std::vector<schedule::Instruction>& instructions) {
  std::vector<double> values(bytes.size() / sizeof(double));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  RankStep step;
  step.times = {values[0], values[1], values[2], values[3], values[4]};
  size_t at = 5;
  for (const schedule::Instruction& instruction : instructions) {
    step.stamps.push_back({&instruction, runtime::lane_of(instruction.kind), values[at], values[at + 1],
                           values[at + 2], values[at + 3]});
    at += 4;
  }
  return step;
}

}  // namespace

void run_replay(const schedule::Program& program, const runtime::ReplayTimes& times,
                const ReplayOptions& options, const StepSink& sink) {
  const int ranks = program.schedule.ranks;
  const std::vector<std::unique_ptr<transport::World>> sums = transport::make_inproc_worlds(ranks);
  // Clocks of one process are one.
  const std::shared_ptr<Clock> clock = options.sleeping ? make_real_clock() : make_virtual_clock();
  std::vector<RankStep> collected(static_cast<size_t>(ranks));
  std::atomic<int> finished{0};
  transport::InprocOptions links = replay_links(program, times, options.message_bytes, options.first_step);
  links.one_thread = !options.sleeping && options.mode == StreamMode::inline_now;
  transport::run_inproc(ranks, links, [&](transport::World& world) {
    const auto rank = static_cast<size_t>(world.rank());
    const auto device = cpu::make_cpu_device(device_options(world.rank(), options, clock));
    const transport::AbortOnUnwind abort(*sums[rank]);
    ReplayEngine engine(*device, world, *sums[rank], program, times, options.message_bytes,
                        options.make_stage, options.rolling);
    collected[rank].drains = true;
    for (uint64_t step = options.first_step; step < options.first_step + options.steps; ++step) {
      run_step(engine, step, drains(times, options, step));
      copy_step(engine, program.ranks[rank], collected[rank]);
      if (finished.fetch_add(1) + 1 < ranks) continue;
      // The last rank to be done. No other can end the next step without it, so that nobody writes meanwhile.
      finished.store(0);
      sink(step, collected);
    }
  });
}

void run_replay_rank(transport::World& world, const schedule::Program& program,
                     const runtime::ReplayTimes& times, const ReplayOptions& options, const StepSink& sink) {
  ReplayOptions asleep = options;
  asleep.sleeping = true;
  const std::shared_ptr<Clock> clock = make_real_clock();
  if (options.rolling != nullptr)
    throw UsageError("ranks that are processes align their clocks between two steps, and these overlap");
  const auto device = cpu::make_cpu_device(device_options(world.rank(), asleep, clock));
  ReplayEngine engine(*device, world, world, program, times, options.message_bytes, options.make_stage);
  for (uint64_t step = options.first_step; step < options.first_step + options.steps; ++step) {
    world.barrier();
    const double zero = clock->now();
    run_step(engine, step, true);
    const std::vector<std::string> all = world.gather(pack(engine, zero));
    if (world.rank() != 0) continue;
    std::vector<RankStep> ranks;
    for (size_t rank = 0; rank < all.size(); ++rank)
      ranks.push_back(unpack(all[rank], program.ranks[rank].instructions));
    sink(step, ranks);
  }
}

schedule::Timeline timeline_of(std::span<const RankStep> ranks) {
  double begin = std::numeric_limits<double>::infinity();
  for (const RankStep& rank : ranks) begin = std::min(begin, rank.times.loaded);
  schedule::Timeline timeline;
  for (const RankStep& rank : ranks) {
    std::vector<schedule::Span>& spans = timeline.spans.emplace_back();
    for (const Stamp& stamp : rank.stamps) spans.push_back({stamp.start - begin, stamp.end - begin});
  }
  return timeline;
}

}  // namespace penstock::replay
