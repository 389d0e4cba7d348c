#include "parallel/schedule/measures.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "parallel/schedule/wiring.h"

namespace penstock::schedule {

namespace {

// Cuts the gap before an action at what is known: the end of the peer's action, the arrival of its result.
void attribute_gap(const Wiring& wiring, const std::vector<Span>& all, int id, double gap_start, Idle& idle) {
  const double start = all[static_cast<size_t>(id)].start;
  double at = gap_start;
  const auto advance = [&](double until, double& part) {
    const double to = std::clamp(until, at, start);
    part += to - at;
    at = to;
  };
  const int receive = wiring.waits_for[static_cast<size_t>(id)][0];
  const int send = receive < 0 ? -1 : wiring.partner[static_cast<size_t>(receive)];
  if (send >= 0) {
    const int producer = wiring.waits_for[static_cast<size_t>(send)][0];
    advance(all[static_cast<size_t>(producer)].end, idle.wait);
    advance(all[static_cast<size_t>(receive)].end, idle.transfer);
  }
  advance(start, idle.buffer);
}

void finish_ratios(Measures& measures) {
  double busy = 0;
  double longest = 0;
  for (RankMeasures& rank : measures.ranks) {
    busy += rank.busy / static_cast<double>(measures.ranks.size());
    longest = std::max(longest, rank.last_end - rank.first_start);
    rank.idle = measures.makespan - rank.busy;
  }
  // A step that costs nothing has no bubble.
  measures.bubble_ratio = measures.makespan > 0 ? 1 - busy / measures.makespan : 0;
  measures.bubble_ratio_rank_span = longest > 0 ? 1 - busy / longest : 0;
}

}  // namespace

Measures measure(const Program& program, const Timeline& timeline) {
  std::vector<Violation> found;
  const Wiring wiring = wire(program, found);
  std::vector<Span> all;
  for (const auto& spans : timeline.spans) all.insert(all.end(), spans.begin(), spans.end());

  Measures measures;
  double begin = std::numeric_limits<double>::infinity();
  double end = 0;
  double step_end = 0;
  for (int r = 0; r < program.schedule.ranks; ++r) {
    RankMeasures& rank = measures.ranks.emplace_back();
    rank.peak_slots = peak_slots(program.schedule, r);
    bool first = true;
    const auto& list = program.ranks[static_cast<size_t>(r)].instructions;
    for (size_t i = 0; i < list.size(); ++i) {
      const Span& span = timeline.spans[static_cast<size_t>(r)][i];
      step_end = std::max(step_end, span.end);
      if (list[i].kind != InstructionKind::compute) continue;
      if (first) {
        rank.first_start = span.start;
      } else {
        attribute_gap(wiring, all, wiring.first[static_cast<size_t>(r)] + static_cast<int>(i), rank.last_end,
                      rank.causes);
      }
      first = false;
      rank.busy += span.end - span.start;
      rank.last_end = span.end;
    }
    begin = std::min(begin, rank.first_start);
    end = std::max(end, rank.last_end);
  }
  measures.makespan = end - begin;
  measures.step_time = step_end - begin;
  for (RankMeasures& rank : measures.ranks) {
    rank.causes.fill = rank.first_start - begin;
    rank.causes.drain = end - rank.last_end;
    rank.causes.reduction = measures.step_time - measures.makespan;
  }
  finish_ratios(measures);
  return measures;
}

Measures measure_steady_state(const Program& program, const Timeline& timeline) {
  constexpr int settled = 2;  // the step that is measured: fill is over, drain is not near
  if (program.schedule.steps < settled + 2) {
    throw ScheduleError(fmt::format("a steady state needs a window of {} steps or more; it has {}",
                                    settled + 2, program.schedule.steps));
  }
  Measures measures;
  for (int r = 0; r < program.schedule.ranks; ++r) {
    RankMeasures& rank = measures.ranks.emplace_back();
    rank.peak_slots = peak_slots(program.schedule, r);
    // First start, and end of the last weight gradient, of the step and the one before.
    double ends[2] = {0, 0};
    const auto& list = program.ranks[static_cast<size_t>(r)].instructions;
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i].kind != InstructionKind::compute) continue;
      const Span& span = timeline.spans[static_cast<size_t>(r)][i];
      const int step = list[i].step;
      if (step == settled) rank.busy += span.end - span.start;
      if (step != settled && step != settled - 1) continue;
      double& last = ends[step - settled + 1];
      last = std::max(last, span.end);
    }
    rank.first_start = ends[0];
    rank.last_end = ends[1];
    measures.makespan = std::max(measures.makespan, ends[1] - ends[0]);
  }
  measures.step_time = measures.makespan;
  finish_ratios(measures);
  for (RankMeasures& rank : measures.ranks) rank.causes.wait = rank.idle;
  return measures;
}

std::vector<MemoryPoint> memory_over_time(const Program& program, const Timeline& timeline, int rank,
                                          const MemorySizes& sizes) {
  // Changes in time order; what is freed at an instant counts before what is taken at it.
  std::vector<MemoryPoint> changes;
  const RankProgram& list = program.ranks[static_cast<size_t>(rank)];
  for (size_t i = 0; i < list.instructions.size(); ++i) {
    if (list.instructions[i].kind != InstructionKind::compute) continue;
    const Span& span = timeline.spans[static_cast<size_t>(rank)][i];
    const Op op = list.instructions[i].action.op;
    if (op == Op::forward) changes.push_back({span.start, sizes.slot});
    if (op == Op::backward_input) changes.push_back({span.start, sizes.weight_slot});
    if (gives_input_gradient(op)) changes.push_back({span.end, -sizes.slot});
    if (op == Op::backward_weight) changes.push_back({span.end, -sizes.weight_slot});
  }
  std::sort(changes.begin(), changes.end(), [](const MemoryPoint& a, const MemoryPoint& b) {
    return a.time != b.time ? a.time < b.time : a.held < b.held;
  });
  double held = 0;
  for (const int count : list.buffers) held += count * sizes.buffer;
  std::vector<MemoryPoint> points{{0, held}};
  for (const MemoryPoint& change : changes) {
    held += change.held;
    if (points.back().time == change.time) {
      points.back().held = held;
    } else {
      points.push_back({change.time, held});
    }
  }
  return points;
}

}  // namespace penstock::schedule
