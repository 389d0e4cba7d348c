#include "parallel/runtime/replay_engine.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock::runtime {

using schedule::BufferPool;
using schedule::Instruction;
using schedule::InstructionKind;

namespace {

// The ends of the stage's windows, but the last. To the simulator a full backward is one action: what
// accumulates in its I is complete with it.
std::vector<SleepingStage::WindowEnd> window_ends(const schedule::Program& program, int stage) {
  std::vector<SleepingStage::WindowEnd> ends;
  const auto& list =
      program.ranks[static_cast<size_t>(program.schedule.rank_of_stage[static_cast<size_t>(stage)])];
  for (const Instruction& sum : list.instructions) {
    if (sum.kind != InstructionKind::reduce_gradients || sum.last || sum.action.stage != stage) continue;
    const bool whole =
        std::any_of(list.instructions.begin(), list.instructions.end(), [&](const Instruction& each) {
          return each.kind == InstructionKind::compute && each.action.op == schedule::Op::backward &&
                 each.action.stage == stage && each.action.micro_batch == sum.action.micro_batch;
        });
    ends.push_back({sum.action, whole ? schedule::Op::backward_weight : sum.action.op});
  }
  return ends;
}

}  // namespace

ReplayEngine::ReplayEngine(Device& device, transport::World& world, transport::World& sums,
                           const schedule::Program& program, const ReplayTimes& times, int64_t message_bytes,
                           const StageMaker& make_stage, const schedule::RollingProgram* rolling)
    : device_(device),
      clock_(*device.options().clock),
      world_(world),
      sums_(sums),
      times_(times),
      rank_(world.rank()),
      blocks_(program.schedule.blocks()),
      asynchronous_(program.schedule.asynchronous),
      list_(device, program, rank_),
      executor_(device, executor_parts(program, message_bytes, make_stage, rolling)),
      abort_world_(world),
      abort_sums_(sums) {
  for (std::vector<Stamp>& stamps : stamps_) stamps.resize(list_.steps().size());
  if (rolling == nullptr) return;
  rolling_ =
      std::make_unique<RollingLists>(device, *rolling, program, rank_, executor_.stream(Lane::compute));
  ends_ = std::make_unique<StepEnds>(device, executor_.stream(Lane::compute));
  executor_.synchronize();
}

ReplayEngine::~ReplayEngine() = default;

ExecutorParts ReplayEngine::executor_parts(const schedule::Program& program, int64_t message_bytes,
                                           const StageMaker& make_stage,
                                           const schedule::RollingProgram* rolling) {
  const schedule::Schedule& schedule = program.schedule;
  if (world_.size() != schedule.ranks || sums_.size() != schedule.ranks) {
    throw UsageError(fmt::format("a replay of {} pipeline ranks in worlds of {} and {}", schedule.ranks,
                                 world_.size(), sums_.size()));
  }
  if (program.options.sharded_optimizer)
    throw UsageError(
        "a replay's replicas do not meet: a program with a sharded optimizer cannot be replayed");
  if (times_.costs().traffic_slowdown != 0) {
    throw UsageError(fmt::format(
        "a replay's actions take their own time whatever passes beside them, so that a traffic slow-down of "
        "{} cannot be kept; set it to 0",
        times_.costs().traffic_slowdown));
  }
  const auto keep_pair = [this](std::unique_ptr<transport::Communicator>& place, const char* name, int first,
                                int last) {
    auto made = sums_.create(fmt::format("{} on ranks {} and {}", name, first, last), {first, last});
    if (made) place = std::move(made);
  };
  pipeline_ = world_.create("pipeline");
  for (const auto& [first, last] : tied_exchanges(schedule)) keep_pair(tied_, "tied weight", first, last);
  for (int rank = 0; schedule.copies > 1 && rank < schedule.ranks / 2; ++rank)
    keep_pair(copies_, "copies", rank, schedule.ranks - 1 - rank);
  all_ = sums_.create("all ranks");

  ExecutorParts parts;
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    const bool ours = schedule.rank_of_stage[static_cast<size_t>(stage)] == rank_;
    if (!ours) {
      stages_.push_back(nullptr);
    } else if (make_stage) {
      stages_.push_back(make_stage(device_, stage, window_ends(program, stage)));
    } else {
      stages_.push_back(std::make_unique<SleepingStage>(device_, times_, stage, window_ends(program, stage)));
    }
    parts.stages.push_back(stages_.back().get());
  }
  auto counts = program.ranks[static_cast<size_t>(rank_)].buffers;
  for (size_t pool = 0; rolling != nullptr && pool < counts.size(); ++pool)
    counts[pool] = std::max(counts[pool], rolling->window.ranks[static_cast<size_t>(rank_)].buffers[pool]);
  size_t bytes = 0;
  for (const int count : counts)
    bytes += static_cast<size_t>(count) * aligned(static_cast<size_t>(message_bytes));
  Arena& arena = device_.create_arena(ArenaTag::communication, bytes);
  for (size_t pool = 0; pool < counts.size(); ++pool) {
    const auto name = schedule::to_string(static_cast<BufferPool>(pool));
    for (int i = 0; i < counts[pool]; ++i)
      parts.buffers[pool].push_back(arena.allocate(name, DType::u8, Shape{message_bytes}));
  }
  parts.pipeline = pipeline_.get();
  parts.operations = this;
  parts.before = [this](Stream& stream, const Instruction& instruction) {
    select(instruction);
    if (instruction.kind != InstructionKind::compute) return;
    const double late = host_seconds_[enqueued_];
    if (late > 0) enqueue_sleep(stream, clock_, "host", late);
  };
  if (rolling == nullptr) return parts;
  parts.after = [this](Stream& stream, const Instruction& instruction) { ends_->mark(stream, instruction); };
  return parts;
}

void ReplayEngine::select(const Instruction& instruction) {
  enqueued_ = static_cast<size_t>(instruction.step);
  for (const auto& stage : stages_) {
    if (stage) stage->begin(step_[enqueued_], rank_factor_[enqueued_]);
  }
}

StepsUnderWay ReplayEngine::steps_under_way() {
  StepsUnderWay steps;
  for (size_t at = 0; at < step_.size(); ++at) {
    steps.first_micro_batch[at] = step_[at] * static_cast<uint64_t>(list_.micro_batches());
    steps.stamps[at] = stamps_[step_[at] % kept];
  }
  return steps;
}

void ReplayEngine::start_step(uint64_t step) {
  // One alone is step 0 of its program.
  const size_t at = rolling_ ? static_cast<size_t>(step % 2) : 0;
  step_[at] = last_ = step;
  host_seconds_[at] = times_.host(step, rank_);
  rank_factor_[at] = times_.rank_factor(step, rank_);
  StepTimes& times = step_times_[step % kept];
  Stream& compute = executor_.stream(Lane::compute);
  compute.stamp(&times.begin);
  pause(times_.pause(step, Disturbance::Kind::evaluation), "evaluation", &times.evaluated);
  pause(times_.pause(step, Disturbance::Kind::checkpoint), "checkpoint", &times.checkpointed);
  pause(times_.data(step, rank_), "data", &times.loaded);
  if (!rolling_) {
    executor_.run(list_, stamps_[step % kept]);
  } else {
    if (!open_) step_[1 - at] = step + 1;  // of which nothing is in the list
    executor_.run(open_ ? rolling_->follow(at) : rolling_->start(at), steps_under_way(), !open_);
    open_ = true;
  }
  ++started_;
  compute.stamp(&times.end);
}

void ReplayEngine::pause(double seconds, const char* name, double* end) {
  Stream& compute = executor_.stream(Lane::compute);
  if (seconds > 0) enqueue_sleep(compute, clock_, name, seconds);
  compute.stamp(end);
}

void ReplayEngine::finish_step() {
  const uint64_t step = last_ + 1 - static_cast<uint64_t>(started_--);
  const size_t at = rolling_ ? static_cast<size_t>(step % 2) : 0;
  finished_ = step % kept;
  if (rolling_ && step == last_) {
    executor_.run(rolling_->drain(at), steps_under_way(), false);
    executor_.stream(Lane::compute).stamp(&step_times_[finished_].end);
    open_ = false;
  }
  if (rolling_ && step != last_) {
    ends_->wait(at);
  } else {
    executor_.synchronize();
  }
  // Pauses, and a late host's delays, stood in the stream for what the host would have done before it
  // enqueued.
  for (Stamp& stamp : stamps_[finished_]) {
    if (open_ && &stamp == &stamps_[finished_].back()) break;  // the optimizer's is ahead
    const bool late = host_seconds_[at] > 0 && stamp.instruction->kind == InstructionKind::compute;
    stamp.enqueued = std::max(stamp.enqueued, late ? stamp.start : step_times_[finished_].loaded);
  }
}

void ReplayEngine::reduce_gradients(Stream& stream, const schedule::Action& action, bool last) {
  const SleepingStage& stage = *stages_[static_cast<size_t>(action.stage)];
  stream.wait(last ? stage.done() : stage.done(action));
  if (copies_) meet(stream, *copies_, meeting_bytes_.data());
  const double whole = schedule::Costs::of_block(times_.costs().gradient_reduction, action.stage % blocks_);
  enqueue_sleep(stream, clock_, "gradient reduction", last ? whole : whole / 2);
}

void ReplayEngine::meet(Stream& stream, transport::Communicator& pair, std::byte* bytes) {
  const int other = 1 - pair.rank();
  pair.exchange(stream, {transport::send_to(other, Tensor(bytes, DType::u8, Shape{1})),
                         transport::receive_from(other, Tensor(bytes + 1, DType::u8, Shape{1}))});
}

void ReplayEngine::sum_tied(Stream& stream) {
  if (tied_) meet(stream, *tied_, &meeting_bytes_[2]);
  enqueue_sleep(stream, clock_, "tied sum", times_.costs().tied_sum);
}

void ReplayEngine::agree(Stream& stream) {
  all_->barrier(stream);
}

// Ranks agree on norm and losses here, as PipelineEngine's do.
void ReplayEngine::optimizer_step(Stream& stream) {
  if (!asynchronous_) agree(stream);
  enqueue_sleep(stream, clock_, "optimizer step", rank_factor_[enqueued_] * times_.costs().optimizer_step);
}

}  // namespace penstock::runtime
