#include "trainer/accounting/accountant.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "kernels/device/error.h"
#include "parallel/schedule/wiring.h"

namespace penstock::accounting {

using schedule::InstructionKind;
using schedule::Op;

namespace {

// From when all inputs were there until the start: until it was enqueued the host was late, or busy with
// something that it told us of; after that the stream.
void cut_ready(const RankTimes& times, double ready, double start, double enqueued, PartSeconds& parts) {
  if (start <= ready) return;
  const double here = std::clamp(enqueued, ready, start);
  double told = 0;
  for (const HostInterval& interval : times.host) {
    const double seconds = std::min(interval.end, here) - std::max(interval.begin, ready);
    if (seconds <= 0) continue;
    parts[interval.part] += seconds;
    told += seconds;
  }
  parts[Part::host] += std::max(0.0, here - ready - told);
  parts[Part::launch] += start - here;
}

// The message that is ahead of this one on its stream; −1: none.
int before_in_queue(const schedule::Program& program, const schedule::Wiring& wiring, int id) {
  const int first = wiring.first[static_cast<size_t>(wiring.rank_of(id))];
  const InstructionKind kind = wiring.at(program, id).kind;
  while (--id >= first) {
    if (wiring.at(program, id).kind == kind) return id;
  }
  return -1;
}

}  // namespace

Accountant::Accountant(const schedule::Program& program)
    : stages_by_rank_(program.schedule.stages_by_rank()),
      blocks_(program.schedule.blocks()),
      tracing_(program.ranks.size()) {
  if (program.schedule.steps != 1) {
    throw UsageError(fmt::format("schedule {}: its steps overlap, and one alone cannot be accounted for",
                                 program.schedule.name));
  }
  std::vector<schedule::Violation> found;
  const schedule::Wiring wiring = wire(program, found);
  if (!found.empty()) throw UsageError(found.front().text());
  const auto local = [&](int id) {
    return id < 0 ? -1 : id - wiring.first[static_cast<size_t>(wiring.rank_of(id))];
  };
  for (size_t r = 0; r < program.ranks.size(); ++r) {
    RankWork& rank = ranks_.emplace_back();
    const auto& list = program.ranks[r].instructions;
    rank.instructions = list.size();
    for (size_t at = 0; at < list.size(); ++at) {
      if (list[at].kind == InstructionKind::optimizer_step) rank.optimizer = static_cast<int>(at);
      if (list[at].kind != InstructionKind::compute) continue;
      Work work;
      work.at = at;
      work.op = list[at].action.op;
      work.stage = list[at].action.stage;
      work.micro_batch = list[at].action.micro_batch;
      const auto& waits = wiring.waits_for[static_cast<size_t>(wiring.first[r]) + at];
      if (waits[0] >= 0 && wiring.at(program, waits[0]).kind == InstructionKind::receive) {
        const int send = wiring.partner[static_cast<size_t>(waits[0])];
        work.receive = local(waits[0]);
        work.source = wiring.rank_of(send);
        work.producer = local(wiring.waits_for[static_cast<size_t>(send)][0]);
        work.sent = local(send);
        const int earlier = before_in_queue(program, wiring, waits[0]);
        if (earlier >= 0) {
          work.receive_before = local(earlier);
          work.source_before = wiring.at(program, earlier).peer;
        }
        const int earlier_send = before_in_queue(program, wiring, send);
        if (earlier_send >= 0) {
          work.send_before = local(earlier_send);
          work.destination_before = wiring.at(program, earlier_send).peer;
        }
        work.gradient = wiring.at(program, send).carries_gradient();
      }
      if (waits[1] >= 0 && wiring.at(program, waits[1]).kind == InstructionKind::send) {
        work.send = local(waits[1]);
        work.destination = wiring.at(program, waits[1]).peer;
        work.taken = local(wiring.partner[static_cast<size_t>(waits[1])]);
      }
      if (waits[2] >= 0 && wiring.at(program, waits[2]).kind == InstructionKind::reduce_gradients)
        work.reduction = local(waits[2]);
      rank.actions.push_back(work);
    }
  }
  account_.ranks.resize(ranks_.size());
  const auto stages = static_cast<size_t>(program.schedule.stages());
  account_.stage_busy.resize(stages);
  input_seconds_.resize(stages);
  first_input_.resize(stages);
  latencies_.resize(static_cast<size_t>(program.schedule.all_micro_batches()));
}

const StepAccount& Accountant::account(std::span<const RankTimes> ranks, std::optional<double> begin) {
  if (ranks.size() != ranks_.size()) {
    throw UsageError(fmt::format("times of {} ranks for a program of {}", ranks.size(), ranks_.size()));
  }
  std::fill(account_.stage_busy.begin(), account_.stage_busy.end(), 0.0);
  std::fill(input_seconds_.begin(), input_seconds_.end(), 0.0);
  std::fill(first_input_.begin(), first_input_.end(), 0.0);
  account_.first_action = std::numeric_limits<double>::infinity();
  account_.last_action = -account_.first_action;
  account_.end = account_.last_action;
  account_.clock_error = 0;
  account_.memory_peak = 0;
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].instructions.size() != ranks_[r].instructions) {
      throw UsageError(fmt::format("rank {}: times of {} instructions for a program of {}", r,
                                   ranks[r].instructions.size(), ranks_[r].instructions));
    }
    count_actions(ranks[r], r);
  }
  const auto first = static_cast<size_t>(account_.first_rank);
  const double first_enqueued = ranks_[first].actions.empty()
                                    ? 0
                                    : ranks[first].instructions[ranks_[first].actions.front().at].enqueued;
  account_.begin = std::min(begin.value_or(first_enqueued == 0 ? account_.first_action : first_enqueued),
                            account_.first_action);
  tracing_.clear(account_.first_action);
  PartSeconds before;
  cut_ready(ranks[first], account_.begin, account_.first_action, first_enqueued, before);
  for (size_t r = 0; r < ranks.size(); ++r) {
    RankAccount& rank = account_.ranks[r];
    for (const Part part : {Part::data, Part::host, Part::launch, Part::evaluation, Part::checkpoint})
      rank.parts[part] += before[part];
    cut_fill(ranks, r);
    double at = rank.first_start;
    bool later = false;
    for (const Work& work : ranks_[r].actions) {
      if (later) cut_gap(ranks, r, work, at);
      later = true;
      at = ranks[r].instructions[work.at].end;
    }
    cut_tail(ranks[r], r);
    take_out_recompute(ranks[r], r);
    rank.parts[Part::unexplained] += account_.seconds() - rank.parts.all();
  }
  tracing_.resolve(account_.ranks);
  measure_latency(ranks);
  return account_;
}

void Accountant::count_actions(const RankTimes& times, size_t r) {
  RankAccount& rank = account_.ranks[r];
  rank.parts = {};
  rank.peers.clear();
  rank.roots.clear();
  rank.links.clear();
  for (const InstructionTimes& each : times.instructions) account_.end = std::max(account_.end, each.end);
  account_.clock_error = std::max(account_.clock_error, times.clock_error);
  account_.memory_peak = std::max(account_.memory_peak, times.memory_peak);
  for (const Work& work : ranks_[r].actions) {
    const InstructionTimes& at = times.instructions[work.at];
    const auto stage = static_cast<size_t>(work.stage);
    account_.stage_busy[stage] += at.end - at.start;
    if (work.op == Op::forward) {
      rank.parts[Part::forward] += at.end - at.start;
    } else if (work.op == Op::backward_weight) {
      rank.parts[Part::backward_weight] += at.end - at.start;
    } else {
      const double middle = work.op == Op::backward && at.middle != 0 ? at.middle : at.end;
      rank.parts[Part::backward_input] += middle - at.start;
      rank.parts[Part::backward_weight] += at.end - middle;
      input_seconds_[stage] += middle - at.start;
      if (work.micro_batch == 0) first_input_[stage] = middle - at.start;
    }
  }
  if (ranks_[r].actions.empty()) return;
  rank.first_start = times.instructions[ranks_[r].actions.front().at].start;
  rank.last_end = times.instructions[ranks_[r].actions.back().at].end;
  account_.last_action = std::max(account_.last_action, rank.last_end);
  if (rank.first_start >= account_.first_action) return;
  account_.first_action = rank.first_start;
  account_.first_rank = static_cast<int>(r);
}

Accountant::Evidence Accountant::evidence(std::span<const RankTimes> ranks, size_t rank,
                                          const Work& work) const {
  constexpr double never = -std::numeric_limits<double>::infinity();
  Evidence found{never, never, never, never, never};
  const std::vector<InstructionTimes>& ours = ranks[rank].instructions;
  if (work.receive >= 0) {
    const std::vector<InstructionTimes>& theirs = ranks[static_cast<size_t>(work.source)].instructions;
    found.produced = std::max(theirs[static_cast<size_t>(work.producer)].end,
                              theirs[static_cast<size_t>(work.sent)].enqueued);
    found.posted = ours[static_cast<size_t>(work.receive)].enqueued;
    found.arrived = ours[static_cast<size_t>(work.receive)].end;
  }
  if (work.send >= 0) found.buffer = ours[static_cast<size_t>(work.send)].end;
  if (work.reduction >= 0) found.reduced = ours[static_cast<size_t>(work.reduction)].end;
  return found;
}

// A message that is behind another on the sender's or on the receiver's stream waits for that one's link
// first.
void Accountant::trace_transfer(std::span<const RankTimes> ranks, size_t r, const Work& work, double begin,
                                double end, bool counts) {
  if (end <= begin) return;
  const int id = static_cast<int>(r);
  double at = begin;
  const auto advance = [&](double until, int source, int destination) {
    const double to = std::clamp(until, at, end);
    tracing_.add_transfer(id, source, destination, at, to);
    if (counts) add_to(account_.ranks[r].links, source, destination, to - at);
    at = to;
  };
  if (work.send_before >= 0) {
    advance(ranks[static_cast<size_t>(work.source)].instructions[static_cast<size_t>(work.send_before)].end,
            work.source, work.destination_before);
  }
  if (work.receive_before >= 0)
    advance(ranks[r].instructions[static_cast<size_t>(work.receive_before)].end, work.source_before, id);
  advance(end, work.source, id);
}

// What a rank waits for before its first action is the pipeline's fill, however long; it is followed like any
// wait, for those that wait for this rank.
void Accountant::cut_fill(std::span<const RankTimes> ranks, size_t r) {
  if (ranks_[r].actions.empty()) return;
  RankAccount& rank = account_.ranks[r];
  const Work& work = ranks_[r].actions.front();
  const Evidence found = evidence(ranks, r, work);
  const double begin = account_.first_action;
  const double start = rank.first_start;
  const double produced = std::clamp(found.produced, begin, start);
  // A message cannot come to a rank whose host has not asked for it.
  const double asked = std::clamp(found.posted, produced, start);
  const double ready = std::clamp(std::max(found.arrived, found.buffer), asked, start);
  const int id = static_cast<int>(r);
  tracing_.add_wait(id, work.source, begin, produced);
  trace_transfer(ranks, r, work, asked, ready, false);
  tracing_.count_from_here(id);
  rank.parts[Part::fill] += produced - begin + ready - asked;
  cut_ready(ranks[r], produced, asked, asked, rank.parts);
  cut_ready(ranks[r], ready, start, ranks[r].instructions[work.at].enqueued, rank.parts);
}

void Accountant::cut_gap(std::span<const RankTimes> ranks, size_t r, const Work& work, double begin) {
  RankAccount& rank = account_.ranks[r];
  const InstructionTimes& times = ranks[r].instructions[work.at];
  if (times.start < begin) {
    rank.parts[Part::unexplained] += times.start - begin;  // two actions at once
    return;
  }
  if (times.start == begin) return;
  const Evidence found = evidence(ranks, r, work);
  const int id = static_cast<int>(r);
  const double produced = std::clamp(found.produced, begin, times.start);
  const double asked = std::clamp(found.posted, produced, times.start);
  const double arrived = std::clamp(found.arrived, asked, times.start);
  const double free = std::clamp(found.buffer, arrived, times.start);
  const double ready = std::clamp(found.reduced, free, times.start);
  tracing_.add_wait(id, work.source, begin, produced);
  trace_transfer(ranks, r, work, asked, arrived, true);
  if (free > arrived) {
    // Nobody had asked for our message until then.
    const RankTimes& theirs = ranks[static_cast<size_t>(work.destination)];
    const double taken =
        std::clamp(theirs.instructions[static_cast<size_t>(work.taken)].enqueued, arrived, free);
    tracing_.add_late(id, work.destination, arrived, taken);
    tracing_.add_transfer(id, id, work.destination, taken, free);
  }
  rank.parts[work.gradient ? Part::wait_backward : Part::wait_forward] += produced - begin;
  rank.parts[Part::transfer] += arrived - asked;
  rank.parts[Part::buffer] += free - arrived;
  rank.parts[Part::reduction] += ready - free;
  add_to(rank.peers, work.source, -1, produced - begin);
  add_to(rank.links, id, work.destination, free - arrived);
  cut_ready(ranks[r], produced, asked, asked, rank.parts);
  cut_ready(ranks[r], ready, times.start, times.enqueued, rank.parts);
}

// The optimizer is on the compute stream, where it waits for the last rank's squares and losses: until then
// it is drain and agreement.
void Accountant::cut_tail(const RankTimes& times, size_t r) {
  RankAccount& rank = account_.ranks[r];
  if (ranks_[r].actions.empty()) {
    rank.parts[Part::drain] += account_.last_action - account_.first_action;
  } else {
    rank.parts[Part::drain] += account_.last_action - rank.last_end;
  }
  double at = account_.last_action;
  const auto advance = [&](double until, Part part) {
    if (until <= at) return;
    rank.parts[part] += until - at;
    at = until;
  };
  if (ranks_[r].optimizer >= 0) {
    const InstructionTimes& optimizer = times.instructions[static_cast<size_t>(ranks_[r].optimizer)];
    advance(optimizer.start, Part::reduction);
    if (times.agreed != 0) {
      advance(times.offered, Part::optimizer);
      advance(times.agreed, Part::reduction);
    }
    advance(optimizer.end, Part::optimizer);
  }
  advance(account_.end, Part::reduction);
}

void Accountant::take_out_recompute(const RankTimes& times, size_t r) {
  PartSeconds& parts = account_.ranks[r].parts;
  const std::vector<int>& stages = stages_by_rank_[r];
  for (size_t i = 0; i < times.recompute.size() && i < stages.size(); ++i) {
    const auto stage = static_cast<size_t>(stages[i]);
    if (first_input_[stage] <= 0) continue;
    const double share = std::clamp(times.recompute[i] / first_input_[stage], 0.0, 1.0);
    parts[Part::recompute] += share * input_seconds_[stage];
    parts[Part::backward_input] -= share * input_seconds_[stage];
  }
}

void Accountant::measure_latency(std::span<const RankTimes> ranks) {
  // A micro-batch passes one copy of the model: its F and I on that copy's first stage.
  const auto at_first = [&](auto visit) {
    for (size_t r = 0; r < ranks_.size(); ++r) {
      for (const Work& work : ranks_[r].actions) {
        if (work.stage % blocks_ == 0) visit(work, ranks[r].instructions[work.at]);
      }
    }
  };
  at_first([&](const Work& work, const InstructionTimes& at) {
    if (work.op == Op::forward) latencies_[static_cast<size_t>(work.micro_batch)] = -at.start;
  });
  at_first([&](const Work& work, const InstructionTimes& at) {
    if (gives_input_gradient(work.op)) latencies_[static_cast<size_t>(work.micro_batch)] += at.end;
  });
  const auto middle = latencies_.begin() + static_cast<std::ptrdiff_t>(latencies_.size() / 2);
  std::nth_element(latencies_.begin(), middle, latencies_.end());
  account_.micro_batch_latency = *middle;
}

}  // namespace penstock::accounting
