#include "trainer/accounting/accountant.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "kernels/device/error.h"
#include "parallel/schedule/middle.h"

namespace penstock::accounting {

using schedule::Op;

const StepAccount& Accountant::account(std::span<const RankTimes> ranks, std::optional<double> begin) {
  begin_account(ranks);
  for (size_t r = 0; r < ranks.size(); ++r) count_actions(ranks[r], r);
  find_slow_actions(ranks);
  const auto first = static_cast<size_t>(account_.first_rank);
  const double first_enqueued = ranks_[first].actions.empty()
                                    ? 0
                                    : ranks[first].instructions[ranks_[first].actions.front().at].enqueued;
  account_.begin = std::min(begin.value_or(first_enqueued == 0 ? account_.first_action : first_enqueued),
                            account_.first_action);
  tracing_.clear(account_.first_action);
  PartSeconds before;
  const double gathered = ranks_[first].actions.empty()
                              ? account_.begin
                              : evidence(ranks, first, ranks_[first].actions.front()).gathered;
  cut_ready(ranks, first, account_.begin, account_.first_action, first_enqueued, gathered, before,
            all_ranks_);
  for (size_t r = 0; r < ranks.size(); ++r) {
    RankAccount& rank = account_.ranks[r];
    for (const Part part :
         {Part::data, Part::host, Part::launch, Part::evaluation, Part::checkpoint, Part::reduction})
      rank.parts[part] += before[part];
    // All ranks are between two steps: where one stands still, the first cannot begin either.
    holds_.cut({static_cast<int>(r)}, account_.begin, account_.first_action,
               [&](double from, double to, int still) {
                 if (still < 0) common_.push_back({r, from, to});
               });
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
  blame_for_common();
  measure_latency(ranks);
  return account_;
}

void Accountant::begin_account(std::span<const RankTimes> ranks) {
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
  holds_.clear(ranks);
  common_.clear();
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].instructions.size() != ranks_[r].instructions) {
      throw UsageError(fmt::format("rank {}: times of {} instructions for a program of {}", r,
                                   ranks[r].instructions.size(), ranks_[r].instructions));
    }
    RankAccount& rank = account_.ranks[r];
    rank.parts = {};
    rank.peers.clear();
    rank.roots.clear();
    rank.links.clear();
    account_.clock_error = std::max(account_.clock_error, ranks[r].clock_error);
    account_.memory_peak = std::max(account_.memory_peak, ranks[r].memory_peak);
  }
}

void Accountant::count_actions(const RankTimes& times, size_t r) {
  RankAccount& rank = account_.ranks[r];
  for (const InstructionTimes& each : times.instructions) account_.end = std::max(account_.end, each.end);
  for (const Work& work : ranks_[r].actions) count_action(times.instructions[work.at], work, rank);
  if (ranks_[r].actions.empty()) return;
  rank.first_start = times.instructions[ranks_[r].actions.front().at].start;
  rank.last_end = times.instructions[ranks_[r].actions.back().at].end;
  account_.last_action = std::max(account_.last_action, rank.last_end);
  if (rank.first_start >= account_.first_action) return;
  account_.first_action = rank.first_start;
  account_.first_rank = static_cast<int>(r);
}

void Accountant::count_action(const InstructionTimes& at, const Work& work, RankAccount& rank) {
  const auto stage = static_cast<size_t>(work.stage);
  holds_.count(work.op, work.stage, at.end - at.start);
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
    if (first_input_[stage] == 0) first_input_[stage] = middle - at.start;
  }
}

void Accountant::find_slow_actions(std::span<const RankTimes> ranks) {
  for (size_t r = 0; r < ranks_.size(); ++r) {
    for (const Work& work : ranks_[r].actions) {
      const InstructionTimes& at = ranks[r].instructions[work.at];
      holds_.look_at(static_cast<int>(r), work.op, work.stage, at.start, at.end);
    }
  }
}

Accountant::Evidence Accountant::evidence(std::span<const RankTimes> ranks, size_t rank,
                                          const Work& work) const {
  constexpr double never = -std::numeric_limits<double>::infinity();
  Evidence found{never, never, never, never, never, never};
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
  if (work.gather >= 0) found.gathered = ours[static_cast<size_t>(work.gather)].end;
  return found;
}

// From when all inputs were there until the start: until it was enqueued the host was late, or busy with
// something that it told us of; after that parameters were gathered, or the stream was late. (A stage's are
// gathered unit by unit: what is left of the gather passes beside the forward.) It is not late by itself
// while one of those that it meets between two steps (`met`) stands still.
void Accountant::cut_ready(std::span<const RankTimes> ranks, size_t r, double ready, double start,
                           double enqueued, double gathered, PartSeconds& parts, std::span<const int> met) {
  if (start <= ready) return;
  const double here = std::clamp(enqueued, ready, start);
  holds_.cut(met, ready, here, [&](double from, double to, int still) {
    if (still < 0) holds_.add(static_cast<int>(r), from, to);
  });
  double told = 0;
  for (const HostInterval& interval : ranks[r].host) {
    const double seconds = std::min(interval.end, here) - std::max(interval.begin, ready);
    if (seconds <= 0) continue;
    parts[interval.part] += seconds;
    told += seconds;
  }
  parts[Part::host] += std::max(0.0, here - ready - told);
  const double there = std::clamp(gathered, here, start);
  holds_.cut({static_cast<int>(r)}, here, there, [&](double from, double to, int still) {
    parts[still < 0 ? Part::reduction : Part::host] += to - from;
  });
  holds_.cut({static_cast<int>(r)}, there, start, [&](double from, double to, int still) {
    parts[still < 0 ? Part::launch : Part::host] += to - from;
  });
}

// Idle time that `part` stands for, but for when the rank stood still itself. If others were held up
// meanwhile they are behind it.
void Accountant::cut_common(size_t r, Part part, double begin, double end) {
  holds_.cut({static_cast<int>(r)}, begin, end, [&](double from, double to, int still) {
    account_.ranks[r].parts[still < 0 ? part : Part::host] += to - from;
    if (still < 0) common_.push_back({r, from, to});
  });
}

void Accountant::blame_for_common() {
  for (const Common& each : common_) {
    double left = each.end - each.begin;
    for (size_t other = 0; other < ranks_.size() && left > 0; ++other) {
      if (other == each.rank) continue;
      const double held = std::min(left, holds_.seconds(other, each.begin, each.end));
      add_to(account_.ranks[each.rank].roots, static_cast<int>(other), -1, held);
      left -= held;
    }
  }
}

// Until the peer's action had ended. While we stood still ourselves nobody can say that we waited.
void Accountant::cut_wait(size_t r, const Work& work, Part part, double begin, double produced) {
  const int id = static_cast<int>(r);
  holds_.cut({id}, begin, produced, [&](double from, double to, int still) {
    if (still < 0) tracing_.add_wait(id, work.source, from, to);
    account_.ranks[r].parts[still < 0 ? part : Part::host] += to - from;
    if (still < 0 && part != Part::fill) add_to(account_.ranks[r].peers, work.source, -1, to - from);
  });
}

// A message that is behind another on the sender's or on the receiver's stream waits for that one's link
// first. A link whose one end stands still is not slow: we wait for that rank.
void Accountant::cut_transfer(std::span<const RankTimes> ranks, size_t r, const Work& work, bool fill,
                              double begin, double end) {
  if (end <= begin) return;
  RankAccount& rank = account_.ranks[r];
  const int id = static_cast<int>(r);
  const Part waits = fill ? Part::fill : work.gradient ? Part::wait_backward : Part::wait_forward;
  double at = begin;
  const auto advance = [&](double until, int source, int destination) {
    const double last = std::clamp(until, at, end);
    holds_.cut({id, source, destination}, at, last, [&](double from, double to, int still) {
      if (still == id) {
        rank.parts[Part::host] += to - from;
      } else if (still >= 0) {
        tracing_.add_held(id, still, from, to);
        rank.parts[waits] += to - from;
        if (!fill) add_to(rank.peers, still, -1, to - from);
      } else {
        tracing_.add_transfer(id, source, destination, from, to);
        rank.parts[fill ? Part::fill : Part::transfer] += to - from;
        if (!fill) add_to(rank.links, source, destination, to - from);
      }
    });
    at = last;
  };
  if (work.send_before >= 0) {
    advance(ranks[static_cast<size_t>(work.source)].instructions[static_cast<size_t>(work.send_before)].end,
            work.source, work.destination_before);
  }
  if (work.receive_before >= 0)
    advance(ranks[r].instructions[static_cast<size_t>(work.receive_before)].end, work.source_before, id);
  advance(end, work.source, id);
}

// Until the send that holds the buffer was done; nobody had asked for that message until `taken`.
void Accountant::cut_buffer(size_t r, const Work& work, double begin, double taken, double end) {
  RankAccount& rank = account_.ranks[r];
  const int id = static_cast<int>(r);
  const auto advance = [&](double first, double last, bool moves) {
    holds_.cut({id, work.destination}, first, last, [&](double from, double to, int still) {
      if (still == id) {
        rank.parts[Part::host] += to - from;
        return;
      }
      if (still >= 0) {
        tracing_.add_held(id, still, from, to);
      } else if (moves) {
        tracing_.add_transfer(id, id, work.destination, from, to);
      } else {
        tracing_.add_late(id, work.destination, from, to);
      }
      rank.parts[Part::buffer] += to - from;
      add_to(rank.links, id, work.destination, to - from);
    });
  };
  advance(begin, taken, false);
  advance(taken, end, true);
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
  cut_wait(r, work, Part::fill, begin, produced);
  cut_transfer(ranks, r, work, true, asked, ready);
  tracing_.count_from_here(static_cast<int>(r));
  holds_.cut({static_cast<int>(r)}, begin, ready, [&](double from, double to, int still) {
    if (still < 0) common_.push_back({r, from, to});
  });
  cut_ready(ranks, r, produced, asked, asked, asked, rank.parts);
  cut_ready(ranks, r, ready, start, ranks[r].instructions[work.at].enqueued, found.gathered, rank.parts);
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
  const double produced = std::clamp(found.produced, begin, times.start);
  const double asked = std::clamp(found.posted, produced, times.start);
  const double arrived = std::clamp(found.arrived, asked, times.start);
  const double free = std::clamp(found.buffer, arrived, times.start);
  const double ready = std::clamp(found.reduced, free, times.start);
  cut_wait(r, work, work.gradient ? Part::wait_backward : Part::wait_forward, begin, produced);
  cut_transfer(ranks, r, work, false, asked, arrived);
  if (free > arrived) {
    const RankTimes& theirs = ranks[static_cast<size_t>(work.destination)];
    const double taken =
        std::clamp(theirs.instructions[static_cast<size_t>(work.taken)].enqueued, arrived, free);
    cut_buffer(r, work, arrived, taken, free);
  }
  cut_common(r, Part::reduction, free, ready);
  cut_ready(ranks, r, produced, asked, asked, asked, rank.parts);
  cut_ready(ranks, r, ready, times.start, times.enqueued, found.gathered, rank.parts);
}

// The optimizer is on the compute stream, where it waits for the last rank's squares and losses: until then
// it is drain and agreement.
void Accountant::cut_tail(const RankTimes& times, size_t r) {
  RankAccount& rank = account_.ranks[r];
  const bool works = !ranks_[r].actions.empty();
  cut_common(r, Part::drain, works ? rank.last_end : account_.first_action, account_.last_action);
  double at = account_.last_action;
  const auto advance = [&](double until, Part part) {
    if (until <= at) return;
    if (part == Part::reduction) {
      cut_common(r, part, at, until);
    } else {
      rank.parts[part] += until - at;
    }
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
  account_.micro_batch_latency = schedule::middle(latencies_);
}

}  // namespace penstock::accounting
