#include "tests/bench/measured_steps.h"

#include <algorithm>

#include "parallel/schedule/measures.h"
#include "parallel/schedule/wiring.h"
#include "trainer/accounting/median.h"
#include "trainer/replay/step_summary.h"

namespace penstock::bench {

using schedule::InstructionKind;
using schedule::Span;

namespace {

/// By instruction, numbered rank by rank: when it ran, messages from when both ends were posted.
std::vector<Span> spans_of(const schedule::Wiring& wiring, const std::vector<replay::RankStep>& ranks) {
  std::vector<Span> all;
  for (const replay::RankStep& rank : ranks) {
    for (const runtime::Stamp& stamp : rank.stamps) all.push_back({stamp.start, stamp.end});
  }
  std::vector<Span> made = all;
  for (size_t id = 0; id < all.size(); ++id) {
    const int partner = wiring.partner[id];
    if (partner >= 0) made[id].start = std::max(all[id].start, all[static_cast<size_t>(partner)].start);
  }
  return made;
}

schedule::Wiring wiring_of(const schedule::Program& program) {
  std::vector<schedule::Violation> found;
  return wire(program, found);
}

}  // namespace

void MeasuredSteps::add(std::span<const replay::RankStep> ranks) {
  steps_.emplace_back(ranks.begin(), ranks.end());
  std::vector<accounting::RankTimes> times;
  for (const replay::RankStep& rank : ranks) times.push_back(replay::rank_times(rank));
  costs_.add(times);
}

double MeasuredSteps::makespan() const {
  std::vector<double> all;
  for (const auto& step : steps_) all.push_back(measure(program_, replay::timeline_of(step)).makespan);
  return accounting::median(all);
}

double MeasuredSteps::bubble() const {
  std::vector<double> all;
  for (const auto& step : steps_) all.push_back(measure(program_, replay::timeline_of(step)).bubble_ratio);
  return accounting::median(all);
}

double MeasuredSteps::both_ways(int rank) const {
  const schedule::Wiring wiring = wiring_of(program_);
  const auto begin = static_cast<size_t>(wiring.first[static_cast<size_t>(rank)]);
  const auto& list = program_.ranks[static_cast<size_t>(rank)].instructions;
  std::vector<double> all;
  for (const auto& step : steps_) {
    const std::vector<Span> spans = spans_of(wiring, step);
    double both = 0;
    for (size_t i = 0; i < list.size(); ++i) {
      for (size_t j = 0; j < list.size() && list[i].kind == InstructionKind::send; ++j) {
        if (list[j].kind != InstructionKind::receive) continue;
        const Span& a = spans[begin + i];
        const Span& b = spans[begin + j];
        both += std::max(0.0, std::min(a.end, b.end) - std::max(a.start, b.start));
      }
    }
    all.push_back(both);
  }
  return accounting::median(all);
}

}  // namespace penstock::bench
