// The forwards are listed in simulated time, each taking one tick. A message belongs just before the forward
// that reads it; messages in the order of that time are a topological order of everything, so that the lists
// cannot deadlock (compare lower.cpp).
#include "parallel/schedule/forward_only.h"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

namespace penstock::schedule {

namespace {

struct Forward {
  int tick = 0;
  int stage = 0;
  int micro_batch = 0;
};

// In the order of their ticks, by stage within one.
std::vector<Forward> list_forwards(const Schedule& placement, int micro_batches) {
  std::vector<std::vector<int>> owned(static_cast<size_t>(placement.ranks));
  for (int stage = 0; stage < placement.blocks(); ++stage)
    owned[static_cast<size_t>(placement.rank_of_stage[static_cast<size_t>(stage)])].push_back(stage);
  std::vector<int> done(static_cast<size_t>(placement.blocks()), 0);
  std::vector<Forward> forwards;
  for (int tick = 0; done.back() < micro_batches; ++tick) {
    const std::vector<int> before = done;
    for (const std::vector<int>& of_rank : owned) {
      const auto ready = std::find_if(of_rank.rbegin(), of_rank.rend(), [&](int stage) {
        const int limit = stage == 0 ? micro_batches : before[static_cast<size_t>(stage) - 1];
        return before[static_cast<size_t>(stage)] < limit;
      });
      if (ready == of_rank.rend()) continue;
      forwards.push_back({tick, *ready, done[static_cast<size_t>(*ready)]++});
    }
  }
  std::sort(forwards.begin(), forwards.end(), [](const Forward& a, const Forward& b) {
    return std::tie(a.tick, a.stage) < std::tie(b.tick, b.stage);
  });
  return forwards;
}

class Writer {
 public:
  Writer(const Schedule& placement, int micro_batches) : schedule_(placement) {
    program_.schedule = placement;
    program_.schedule.micro_batches = micro_batches;
    for (auto& actions : program_.schedule.actions) actions.clear();
    program_.options.reduce_gradients = false;
    const auto stages = static_cast<size_t>(placement.stages());
    program_.slots.assign(stages, 1);
    program_.weight_slots.assign(stages, 0);
    const auto ranks = static_cast<size_t>(placement.ranks);
    program_.ranks.resize(ranks);
    taken_.resize(ranks);
    received_.assign(ranks, 0);
    output_.assign(stages * static_cast<size_t>(micro_batches), -1);
  }

  Program write() {
    for (const Forward& forward : list_forwards(schedule_, program_.schedule.micro_batches)) add(forward);
    return std::move(program_);
  }

 private:
  size_t owner(int stage) const {
    return static_cast<size_t>(schedule_.rank_of_stage[static_cast<size_t>(stage)]);
  }
  int& output_of(int stage, int micro_batch) {
    return output_[static_cast<size_t>(stage) * static_cast<size_t>(program_.schedule.micro_batches) +
                   static_cast<size_t>(micro_batch)];
  }
  int& buffers(size_t rank, BufferPool pool) {
    return program_.ranks[rank].buffers[static_cast<size_t>(pool)];
  }
  void free_output(size_t rank, int index) { taken_[rank][static_cast<size_t>(index)] = false; }

  int take_output(size_t rank) {
    auto& taken = taken_[rank];
    const auto place = std::find(taken.begin(), taken.end(), false);
    const auto index = static_cast<size_t>(place - taken.begin());
    if (place == taken.end()) taken.push_back(true);
    taken[index] = true;
    int& count = buffers(rank, BufferPool::activation_out);
    count = std::max(count, static_cast<int>(index) + 1);
    return static_cast<int>(index);
  }

  void add(const Forward& forward) {
    const size_t rank = owner(forward.stage);
    Instruction compute;
    compute.action = {Op::forward, forward.stage, forward.micro_batch};
    compute.slot = 0;
    const bool here = forward.stage > 0 && owner(forward.stage - 1) == rank;
    if (forward.stage > 0) {
      const int output = output_of(forward.stage - 1, forward.micro_batch);
      compute.input = here ? Buffer{BufferPool::activation_out, output} : transfer(forward, output);
    }
    if (!schedule_.is_last(forward.stage)) {
      const int output = take_output(rank);
      output_of(forward.stage, forward.micro_batch) = output;
      compute.output = {BufferPool::activation_out, output};
    }
    // Not before its own output is taken.
    if (here) free_output(rank, compute.input.index);
    program_.schedule.actions[rank].push_back(compute.action);
    program_.ranks[rank].instructions.push_back(compute);
  }

  Buffer transfer(const Forward& forward, int output) {
    const size_t source = owner(forward.stage - 1);
    const size_t destination = owner(forward.stage);
    Instruction message;
    message.action = {Op::forward, forward.stage - 1, forward.micro_batch};
    message.order = program_.orders++;
    message.kind = InstructionKind::send;
    message.peer = static_cast<int>(destination);
    message.input = {BufferPool::activation_out, output};
    program_.ranks[source].instructions.push_back(message);
    free_output(source, output);
    const int index = received_[destination]++ % 2;
    int& count = buffers(destination, BufferPool::activation_in);
    count = std::max(count, index + 1);
    message.kind = InstructionKind::receive;
    message.peer = static_cast<int>(source);
    message.input = {};
    message.output = {BufferPool::activation_in, index};
    program_.ranks[destination].instructions.push_back(message);
    return message.output;
  }

  const Schedule& schedule_;
  Program program_;
  // By rank: which output buffers are in use, and how many messages it has received.
  std::vector<std::vector<bool>> taken_;
  std::vector<int> received_;
  // By stage and micro-batch: the buffer of its output.
  std::vector<int> output_;
};

}  // namespace

Program forward_only(const Schedule& placement, int micro_batches) {
  if (micro_batches < 1 || micro_batches > max_micro_batches) {
    throw ScheduleError(
        fmt::format("forwards of {} micro-batches: 1 to {} are possible", micro_batches, max_micro_batches));
  }
  return Writer(placement, micro_batches).write();
}

}  // namespace penstock::schedule
