#include "parallel/planner/layout_scorer.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace penstock::planner {

using schedule::Action;
using schedule::BufferPool;
using schedule::Op;
using schedule::Schedule;
using schedule::StageCosts;

namespace {

// Above this many stages a rank, modes are chosen greedily.
constexpr size_t most_enumerated = 4;
// Graphs up to this size settle their messages' order for every layout.
constexpr size_t settled_each_time = 1 << 10;
// Messages that occupy links, or are later than others, by a smaller share of a mean action than this hardly
// queue: to the search they only delay.
constexpr double queueing = 0.1;
// What settling takes, in actions timed for each.
constexpr double settle_cost = 20;

// What a layout takes to be scored beside its actions, in actions a stage.
constexpr double stage_actions = 30;

size_t at(int index) {
  return static_cast<size_t>(index);
}

double total(const StageCosts& times) {
  return times.forward + times.backward_input + times.backward_weight;
}

bool no_worse(const StageCosts& a, const StageCosts& b) {
  return a.forward <= b.forward && a.backward_input <= b.backward_input &&
         a.backward_weight <= b.backward_weight;
}

}  // namespace

bool Score::better_than(const Score& other) const {
  if (overflow != other.overflow) return overflow < other.overflow;
  if (step < other.step * (1 - 1e-12)) return true;
  if (step > other.step * (1 + 1e-12)) return false;
  return spread < other.spread * (1 - 1e-9);
}

LayoutScorer::LayoutScorer(const UnitSums& sums, const Machine& machine, Schedule taken,
                           RecomputeChoice recompute)
    : sums_(sums),
      machine_(machine),
      recompute_(std::move(recompute)),
      forecast_(std::move(taken), machine.replicas > 1, sums.model().tied_embeddings),
      slots_(slot_counts(forecast_.schedule())),
      owned_(forecast_.schedule().stages_by_rank()),
      buffers_(at(machine.ranks), BoundaryBuffers{2, 2, 2, 2}),
      terms_(at(forecast_.schedule().stages())) {
  const Schedule& schedule = forecast_.schedule();
  const int S = schedule.stages();
  for (size_t m = 0; m < recompute_modes; ++m)
    recompute_.allowed[m] = recompute_.allowed[m] && sums.model().available[m];
  counts_.assign(4 * at(S), 0);
  counts_to_exit_.assign(4 * at(S), 0);
  split_.assign(at(S), false);
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const std::vector<Action>& list = schedule.actions[at(rank)];
    const int entry = list.front().stage;
    entry_.push_back(entry);
    size_t exit = 0;
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i].stage == entry && gives_input_gradient(list[i].op)) exit = i;
      if (list[i].op == Op::backward_input) split_[at(list[i].stage)] = true;
    }
    for (size_t i = 0; i < list.size(); ++i) {
      const size_t cell = 4 * at(list[i].stage) + static_cast<size_t>(list[i].op);
      counts_[cell] += 1;
      if (i <= exit) counts_to_exit_[cell] += 1;
    }
  }
  const auto boundary = static_cast<double>(sums.model().boundary_bytes);
  const auto delay = [&](int from, int to) {
    const Edge& edge = machine.edge(from, to);
    return from == to ? 0 : edge.latency + boundary / edge.bandwidth;
  };
  double queued = 0;
  double least_latency = std::numeric_limits<double>::infinity();
  double most_latency = 0;
  for (int stage = 0; stage + 1 < S; ++stage) {
    if (schedule.is_last(stage)) {  // of the first copy: nothing passes to the second
      forward_delay_.push_back(0);
      backward_delay_.push_back(0);
      continue;
    }
    const int here = schedule.rank_of_stage[at(stage)];
    const int there = schedule.rank_of_stage[at(stage) + 1];
    forward_delay_.push_back(delay(here, there));
    backward_delay_.push_back(delay(there, here));
    if (here == there) continue;
    for (const Edge& edge : {machine.edge(here, there), machine.edge(there, here)}) {
      queued = std::max(queued, boundary / edge.bandwidth);
      least_latency = std::min(least_latency, edge.latency);
      most_latency = std::max(most_latency, edge.latency);
    }
  }
  double work = 0;
  for (const UnitCosts& unit : sums.model().units) {
    const ModeCosts& mode = unit.in(Recompute::none);
    work += mode.forward + mode.backward_input + mode.backward_weight;
  }
  queued = std::max(queued, most_latency - least_latency);
  contended_ = queued > queueing * work / (3.0 * S);
}

bool LayoutScorer::may(int stage, Recompute mode) const {
  if (!recompute_.fixed.empty()) return recompute_.fixed[block(stage)] == mode;
  return recompute_.allowed[static_cast<size_t>(mode)];
}

void LayoutScorer::update_terms(const Layout& layout) {
  spent_ += stage_actions * static_cast<double>(terms_.size());
  int begin = 0;
  for (size_t s = 0; s < terms_.size(); ++s) {
    StageTerms& terms = terms_[s];
    if (schedule().is_first(static_cast<int>(s))) begin = 0;
    const int end = begin + layout.units[block(static_cast<int>(s))];
    if (terms.begin != begin || terms.end != end) {
      terms.begin = begin;
      terms.end = end;
      const double pace = machine_.pace_of(schedule().rank_of_stage[s]);
      for (size_t m = 0; m < recompute_modes; ++m) {
        const auto mode = static_cast<Recompute>(m);
        const RunBytes bytes = sums_.bytes(begin, end, mode);
        StageCosts times = sums_.times(begin, end, mode);
        times.forward *= pace;
        times.backward_input *= pace;
        times.backward_weight *= pace;
        terms.options[m] = {
            times,
            slots_[s].forward * bytes.forward + slots_[s].kept * bytes.kept + slots_[s].weight * bytes.weight,
            bytes.transient};
      }
      terms.resident = sums_.resident_bytes(begin, end);
      terms.workspace = sums_.workspace_bytes(begin, end);
      terms.optimizer = sums_.optimizer_step(begin, end) * pace;
    }
    begin = end;
  }
}

// All but slots and scratch.
int64_t LayoutScorer::fixed_bytes(int rank) const {
  const ModelCosts& model = sums_.model();
  const std::vector<int>& owned = owned_[at(rank)];
  const auto is_first = [this](int stage) { return schedule().is_first(stage); };
  const auto is_last = [this](int stage) { return schedule().is_last(stage); };
  const bool first = std::any_of(owned.begin(), owned.end(), is_first);
  const bool last = std::any_of(owned.begin(), owned.end(), is_last);
  const BoundaryBuffers& buffers = buffers_[at(rank)];
  int64_t count = buffers[static_cast<size_t>(BufferPool::activation_in)] +
                  buffers[static_cast<size_t>(BufferPool::gradient_in)];
  const auto produced = [&](BufferPool pool, bool end_of_model) {
    const int held = buffers[static_cast<size_t>(pool)];
    return owned.size() > (end_of_model ? 1U : 0U) ? std::max(1, held) : held;
  };
  count += produced(BufferPool::activation_out, last) + produced(BufferPool::gradient_out, first);
  int64_t bytes = model.rank_bytes + count * model.boundary_bytes;
  if (model.tied_embeddings && first != last) bytes += model.tied_exchange_bytes;
  if (model.tied_embeddings && first && last) bytes -= model.tied_shared_bytes;
  int64_t workspace = 0;
  for (const int stage : owned) {
    bytes += terms_[at(stage)].resident;
    workspace = std::max(workspace, terms_[at(stage)].workspace);
  }
  return bytes + workspace;
}

int64_t LayoutScorer::bytes(int rank, const std::vector<Recompute>& modes) const {
  int64_t slots = 0;
  int64_t transient = 0;
  for (size_t i = 0; i < modes.size(); ++i) {
    const Option& chosen = option(owned_[at(rank)][i], modes[i]);
    slots += chosen.slots;
    transient = std::max(transient, chosen.transient);
  }
  return fixed_bytes(rank) + slots + transient;
}

int64_t LayoutScorer::excess(int rank, const std::vector<Recompute>& modes) const {
  int64_t sum = std::max<int64_t>(0, bytes(rank, modes) - machine_.limit_of(rank));
  if (schedule().copies == 1) return sum;
  const int mirror = schedule().ranks - 1 - rank;
  std::vector<Recompute> same;
  for (const int stage : owned_[at(mirror)]) {
    for (size_t i = 0; i < modes.size(); ++i) {
      if (block(owned_[at(rank)][i]) == block(stage)) same.push_back(modes[i]);
    }
  }
  return sum + std::max<int64_t>(0, bytes(mirror, same) - machine_.limit_of(mirror));
}

std::vector<Recompute> LayoutScorer::modes_of(const Layout& layout, int rank) const {
  std::vector<Recompute> modes;
  for (const int stage : owned_[at(rank)]) modes.push_back(layout.recompute[block(stage)]);
  return modes;
}

template <class Visit>
void LayoutScorer::for_each_combination(int rank, Visit visit) const {
  const std::vector<int>& owned = owned_[at(rank)];
  std::vector<std::vector<Recompute>> allowed;
  for (const int stage : owned) {
    allowed.emplace_back();
    for (size_t m = 0; m < recompute_modes; ++m) {
      const auto mode = static_cast<Recompute>(m);
      if (may(stage, mode)) allowed.back().push_back(mode);
    }
  }
  std::vector<size_t> place(owned.size(), 0);
  std::vector<Recompute> modes(owned.size());
  while (true) {
    for (size_t i = 0; i < place.size(); ++i) modes[i] = allowed[i][place[i]];
    visit(modes);
    size_t i = 0;
    while (i < place.size() && ++place[i] == allowed[i].size()) place[i++] = 0;
    if (i == place.size()) return;
  }
}

std::vector<std::vector<Recompute>> LayoutScorer::choices(const Layout& layout, int rank) {
  update_terms(layout);
  const std::vector<int>& owned = owned_[at(rank)];
  if (owned.size() > most_enumerated || schedule().copies > 1) return {};
  std::vector<std::vector<Recompute>> fitting;
  for_each_combination(rank, [&](const std::vector<Recompute>& modes) {
    if (bytes(rank, modes) <= machine_.limit_of(rank)) fitting.push_back(modes);
  });
  const auto dominated = [&](size_t index) {
    for (size_t other = 0; other < fitting.size(); ++other) {
      if (other == index) continue;
      bool worse = true;
      bool equal = true;
      for (size_t i = 0; i < owned.size() && worse; ++i) {
        const StageCosts& mine = option(owned[i], fitting[index][i]).times;
        const StageCosts& its = option(owned[i], fitting[other][i]).times;
        worse = no_worse(its, mine);
        equal = equal && no_worse(mine, its);
      }
      if (worse && (!equal || other < index)) return true;
    }
    return false;
  };
  std::vector<std::vector<Recompute>> best;
  for (size_t index = 0; index < fitting.size(); ++index) {
    if (!dominated(index)) best.push_back(fitting[index]);
  }
  return best;
}

Recompute LayoutScorer::cheapest(int stage) const {
  double least = std::numeric_limits<double>::infinity();
  Recompute best = Recompute::none;
  for (size_t m = 0; m < recompute_modes; ++m) {
    const auto mode = static_cast<Recompute>(m);
    if (!may(stage, mode) || total(option(stage, mode).times) >= least) continue;
    least = total(option(stage, mode).times);
    best = mode;
  }
  return best;
}

// Many stages on a rank: from the cheapest modes, what saves most bytes a second is changed until all fits.
void LayoutScorer::choose_many(int rank, std::vector<Recompute>& modes) const {
  const std::vector<int>& owned = owned_[at(rank)];
  while (excess(rank, modes) > 0) {
    double best = 0;
    std::pair<size_t, Recompute> change{0, Recompute::none};
    for (size_t i = 0; i < owned.size(); ++i) {
      const Option& now = option(owned[i], modes[i]);
      for (size_t m = 0; m < recompute_modes; ++m) {
        const auto mode = static_cast<Recompute>(m);
        const Option& then = option(owned[i], mode);
        if (!may(owned[i], mode) || then.slots >= now.slots) continue;
        const double price = std::max(total(then.times) - total(now.times), 1e-12 * total(now.times) + 1e-30);
        const double worth = static_cast<double>(now.slots - then.slots) / price;
        if (worth > best) {
          best = worth;
          change = {i, mode};
        }
      }
    }
    if (best == 0) return;
    modes[change.first] = change.second;
  }
}

void LayoutScorer::choose_modes(Layout& layout) {
  if (!recompute_.fixed.empty()) {
    layout.recompute = recompute_.fixed;
    return;
  }
  layout.recompute.assign(layout.units.size(), Recompute::none);
  std::vector<Recompute> best;
  // Two ranks that hold copies of the same stages choose together.
  for (int rank = 0; rank < machine_.ranks / schedule().copies; ++rank) {
    const std::vector<int>& owned = owned_[at(rank)];
    best.clear();
    for (const int stage : owned) best.push_back(cheapest(stage));
    if (owned.size() > most_enumerated) {
      choose_many(rank, best);
    } else if (excess(rank, best) > 0) {
      std::pair<int64_t, double> least{std::numeric_limits<int64_t>::max(), 0};
      for_each_combination(rank, [&](const std::vector<Recompute>& modes) {
        const int64_t over = excess(rank, modes);
        double time = 0;
        for (size_t i = 0; i < modes.size(); ++i) time += total(option(owned[i], modes[i]).times);
        if (std::pair(over, time) >= least) return;
        least = {over, time};
        best = modes;
      });
    }
    for (size_t i = 0; i < owned.size(); ++i) layout.recompute[block(owned[i])] = best[i];
  }
}

void LayoutScorer::price(const Layout& layout) {
  if (costs_.blocks.empty()) costs_ = layout_costs(sums_, machine_, schedule(), layout);
  std::vector<double> optimizer(at(machine_.ranks), 0);
  for (size_t s = 0; s < terms_.size(); ++s) {
    const StageTerms& terms = terms_[s];
    const int rank = schedule().rank_of_stage[s];
    const size_t own = block(static_cast<int>(s));
    costs_.blocks[s] = terms.options[static_cast<size_t>(layout.recompute[own])].times;
    optimizer[at(rank)] += terms.optimizer;
    if (own == s) {
      costs_.gradient_reduction[s] =
          reduction_time(sums_, machine_, schedule(), terms.begin, terms.end, rank);
    }
  }
  costs_.optimizer_step = *std::max_element(optimizer.begin(), optimizer.end());
}

int64_t LayoutScorer::overflow(const Layout& layout) const {
  if (machine_.memory_limit.empty()) return 0;
  int64_t sum = 0;
  for (int rank = 0; rank < machine_.ranks; ++rank)
    sum += std::max<int64_t>(0, bytes(rank, modes_of(layout, rank)) - machine_.limit_of(rank));
  return sum;
}

double LayoutScorer::spread() const {
  double squares = 0;
  for (const std::vector<int>& owned : owned_) {
    double busy = 0;
    for (const int stage : owned) busy += total(costs_.blocks[at(stage)]);
    squares += busy * busy;
  }
  return squares;
}

double LayoutScorer::bound() const {
  const auto S = terms_.size();
  // Until a stage's first input is there, and from the end of its last gradient to the end of the first
  // stage's.
  std::vector<double> enter(S, 0);
  std::vector<double> leave(S, 0);
  for (size_t s = 1; s < S; ++s) {
    if (schedule().is_first(static_cast<int>(s))) continue;
    const StageCosts& before = costs_.blocks[s - 1];
    enter[s] = enter[s - 1] + before.forward + forward_delay_[s - 1];
    leave[s] = leave[s - 1] + before.backward_input + (split_[s - 1] ? 0 : before.backward_weight) +
               backward_delay_[s - 1];
  }
  double most = 0;
  for (size_t rank = 0; rank < owned_.size(); ++rank) {
    double all = 0;
    double to_exit = 0;
    for (const int stage : owned_[rank]) {
      const StageCosts& times = costs_.blocks[at(stage)];
      const std::array<double, 4> cost{times.forward, times.backward_input, times.backward_weight,
                                       times.backward_input + times.backward_weight};
      for (size_t op = 0; op < 4; ++op) {
        all += counts_[4 * at(stage) + op] * cost[op];
        to_exit += counts_to_exit_[4 * at(stage) + op] * cost[op];
      }
    }
    const size_t entry = at(entry_[rank]);
    most = std::max(most, enter[entry] + std::max(all, to_exit + leave[entry]));
  }
  return most + costs_.optimizer_step;
}

Score LayoutScorer::forecast_score(const Layout& layout) {
  spent_ += static_cast<double>(forecast_.actions());
  if (contended_ && (forecast_.actions() <= settled_each_time || !forecast_.settled())) {
    forecast_.settle(costs_);
    spent_ += settle_cost * static_cast<double>(forecast_.actions());
  }
  return {overflow(layout), forecast_.time(costs_).step, spread()};
}

Score LayoutScorer::score(Layout& layout) {
  update_terms(layout);
  choose_modes(layout);
  price(layout);
  return forecast_score(layout);
}

Score LayoutScorer::score_as_it_is(const Layout& layout) {
  update_terms(layout);
  price(layout);
  return forecast_score(layout);
}

Score LayoutScorer::score_against(Layout& layout, const Score& best) {
  update_terms(layout);
  choose_modes(layout);
  price(layout);
  const Score optimistic{overflow(layout), bound() * (1 - 1e-12), spread()};
  return optimistic.better_than(best) ? forecast_score(layout) : optimistic;
}

bool LayoutScorer::settle(const Layout& layout) {
  if (!contended_ || forecast_.actions() <= settled_each_time) return false;
  update_terms(layout);
  price(layout);
  forecast_.settle(costs_);
  spent_ += settle_cost * static_cast<double>(forecast_.actions());
  return true;
}

std::vector<RankMemory> LayoutScorer::memory(const Layout& layout) const {
  std::vector<RankMemory> all;
  all.reserve(at(machine_.ranks));
  for (int rank = 0; rank < machine_.ranks; ++rank)
    all.push_back(rank_memory(sums_, schedule(), layout, slots_, buffers_[at(rank)], rank));
  return all;
}

double LayoutScorer::least_time(int stage, int begin, int end) const {
  double least = std::numeric_limits<double>::infinity();
  for (size_t m = 0; m < recompute_modes; ++m) {
    const auto mode = static_cast<Recompute>(m);
    if (may(stage, mode)) least = std::min(least, total(sums_.times(begin, end, mode)));
  }
  return least * machine_.pace_of(schedule().rank_of_stage[at(stage)]);
}

double LayoutScorer::least_fitting_time(int stage, int begin, int end) const {
  if (machine_.memory_limit.empty()) return least_time(stage, begin, end);
  const int rank = schedule().rank_of_stage[at(stage)];
  const SlotCounts& slots = slots_[at(stage)];
  int64_t room = machine_.limit_of(rank) - sums_.model().rank_bytes - sums_.resident_bytes(begin, end) -
                 sums_.workspace_bytes(begin, end);
  if (owned_[at(rank)].size() > 1) room += sums_.model().tied_shared_bytes;
  double least = std::numeric_limits<double>::infinity();
  for (size_t m = 0; m < recompute_modes; ++m) {
    const auto mode = static_cast<Recompute>(m);
    if (!may(stage, mode)) continue;
    const RunBytes bytes = sums_.bytes(begin, end, mode);
    if (slots.forward * bytes.forward + slots.kept * bytes.kept + slots.weight * bytes.weight +
            bytes.transient <=
        room)
      least = std::min(least, total(sums_.times(begin, end, mode)));
  }
  return least * machine_.pace_of(rank);
}

}  // namespace penstock::planner
