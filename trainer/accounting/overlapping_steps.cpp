// Steps that overlap: a rank's compute stream runs list after list, and each list is accounted for as a step.
#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "trainer/accounting/accountant.h"

namespace penstock::accounting {

using schedule::InstructionKind;
using schedule::RollingProgram;

Accountant::Accountant(const schedule::Program& step, const RollingProgram& rolling) : Accountant(step) {
  const int micro_batches = step.schedule.micro_batches;
  begins_.resize(ranks_.size());
  ends_.resize(ranks_.size());
  for (size_t r = 0; r < ranks_.size(); ++r) {
    std::map<std::tuple<schedule::Op, int, int>, int> actions;
    for (size_t at = 0; at < ranks_[r].actions.size(); ++at) {
      Work& work = ranks_[r].actions[at];
      work.send = -1;  // buffers are taken in turn, and not as one step alone takes them
      actions[{work.op, work.stage, work.micro_batch}] = static_cast<int>(at);
    }
    const auto& all = rolling.window.ranks[r].instructions;
    const auto items_of = [&](int list, int own_step) {
      Items items;
      for (size_t i = 0; i < all.size(); ++i) {
        if (rolling.lists[r][i] != list) continue;
        const bool before = all[i].step < own_step;
        const schedule::Action& action = all[i].action;
        if (all[i].kind == InstructionKind::compute)
          items.push_back(
              {before, actions.at({action.op, action.stage, action.micro_batch % micro_batches})});
        if (all[i].kind == InstructionKind::optimizer_step) items.push_back({before, -1});
      }
      return items;
    };
    start_.push_back(items_of(RollingProgram::first, RollingProgram::first));
    follow_.push_back(items_of(RollingProgram::steady, RollingProgram::steady));
    drain_.push_back(items_of(RollingProgram::drain, RollingProgram::drain - 1));
  }
}

const StepAccount& Accountant::account_overlapping(std::span<const RankTimes> ranks,
                                                   std::optional<double> begin, bool follows, bool drains) {
  const bool opens = !follows || before_.empty();
  begin_account(ranks);
  find_slow_actions(ranks);
  if (opens) {
    begin_overlapping(ranks, begin);
  } else {
    account_.begin = 0;
    for (const double end : ends_) account_.begin += end / static_cast<double>(ends_.size());
    account_.first_action = *std::min_element(ends_.begin(), ends_.end());
    tracing_.clear(account_.first_action);
  }
  for (size_t r = 0; r < ranks.size(); ++r) {
    for (const Work& work : ranks_[r].actions)
      account_.last_action = std::max(account_.last_action, ranks[r].instructions[work.at].end);
  }
  for (size_t r = 0; r < ranks.size(); ++r) {
    RankAccount& rank = account_.ranks[r];
    const double from = opens ? account_.begin : ends_[r];
    const Items& items = opens ? start_[r] : follow_[r];
    rank.first_start = opens ? rank.first_start : from;
    double at = cut_items(ranks, r, items, from, opens);
    if (drains) at = cut_items(ranks, r, drain_[r], at, false);
    rank.last_end = at;
    begins_[r] = from;
    ends_[r] = at;
  }
  account_.end = *std::max_element(ends_.begin(), ends_.end());
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (drains) cut_common(r, Part::drain, ends_[r], account_.end);
    if (drains) ends_[r] = account_.end;
    PartSeconds& parts = account_.ranks[r].parts;
    take_out_recompute(ranks[r], r);
    parts[Part::unexplained] += ends_[r] - begins_[r] - parts.all();
  }
  account_.end = 0;
  for (const double end : ends_) account_.end += end / static_cast<double>(ends_.size());
  tracing_.resolve(account_.ranks);
  blame_for_common();
  measure_latency(ranks);
  before_.assign(ranks.begin(), ranks.end());
  return account_;
}

// Behind a drain: as a step that overlaps with none begins.
void Accountant::begin_overlapping(std::span<const RankTimes> ranks, std::optional<double> begin) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    const Work& work = ranks_[r].actions[static_cast<size_t>(start_[r].front().action)];
    account_.ranks[r].first_start = ranks[r].instructions[work.at].start;
    if (account_.ranks[r].first_start >= account_.first_action) continue;
    account_.first_action = account_.ranks[r].first_start;
    account_.first_rank = static_cast<int>(r);
  }
  const auto first = static_cast<size_t>(account_.first_rank);
  const double enqueued = ranks[first].instructions[ranks_[first].actions.front().at].enqueued;
  account_.begin =
      std::min(begin.value_or(enqueued == 0 ? account_.first_action : enqueued), account_.first_action);
  tracing_.clear(account_.first_action);
  PartSeconds ahead;
  cut_ready(ranks, first, account_.begin, account_.first_action, enqueued, account_.begin, ahead, all_ranks_);
  for (size_t r = 0; r < ranks.size(); ++r) {
    for (const Part part : {Part::data, Part::host, Part::launch, Part::evaluation, Part::checkpoint})
      account_.ranks[r].parts[part] += ahead[part];
    cut_fill(ranks, r);
  }
}

double Accountant::cut_items(std::span<const RankTimes> ranks, size_t r, const Items& items, double at,
                             bool opens) {
  RankAccount& rank = account_.ranks[r];
  for (const Item& item : items) {
    const std::span<const RankTimes> records = item.before ? std::span<const RankTimes>(before_) : ranks;
    if (item.action < 0) {
      const InstructionTimes& times = item.before
                                          ? ranks[r].optimizer_before
                                          : ranks[r].instructions[static_cast<size_t>(ranks_[r].optimizer)];
      const double drained = item.before ? at : std::clamp(account_.last_action, at, times.start);
      cut_common(r, Part::drain, at, drained);
      cut_common(r, Part::reduction, drained, times.start);
      rank.parts[Part::optimizer] += times.end - times.start;
      at = times.end;
      continue;
    }
    const Work& work = ranks_[r].actions[static_cast<size_t>(item.action)];
    const InstructionTimes& times = records[r].instructions[work.at];
    if (!opens) cut_gap(records, r, work, at);
    opens = false;
    count_action(times, work, rank);
    at = times.end;
  }
  return at;
}

}  // namespace penstock::accounting
