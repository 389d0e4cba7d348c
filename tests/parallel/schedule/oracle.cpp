#include "tests/parallel/schedule/oracle.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

namespace penstock::schedule::oracle {

namespace {

using Key = std::tuple<char, int, int>;  // F, I or W; stage; micro-batch

// What an action needs from other stages, and gives.
std::vector<Key> needs(const Schedule& s, const Action& a) {
  std::vector<Key> keys;
  if (a.op == Op::forward && !s.is_first(a.stage)) keys.push_back({'F', a.stage - 1, a.micro_batch});
  if (a.op == Op::backward_weight) keys.push_back({'I', a.stage, a.micro_batch});
  if (a.op == Op::backward_input || a.op == Op::backward) {
    keys.push_back({'F', a.stage, a.micro_batch});
    if (!s.is_last(a.stage)) keys.push_back({'I', a.stage + 1, a.micro_batch});
  }
  return keys;
}

std::vector<Key> gives(const Action& a) {
  if (a.op == Op::forward) return {{'F', a.stage, a.micro_batch}};
  if (a.op == Op::backward_input) return {{'I', a.stage, a.micro_batch}};
  if (a.op == Op::backward_weight) return {{'W', a.stage, a.micro_batch}};
  return {{'I', a.stage, a.micro_batch}, {'W', a.stage, a.micro_batch}};
}

// Every stage must have summed the same ascending micro-batches as its copy's first stage, and together all
// of them.
std::string check_sums(const Schedule& s, const std::map<std::pair<char, int>, std::vector<int>>& sums) {
  std::vector<int> all;
  for (int stage = 0; stage < s.stages(); ++stage) {
    for (const char what : {'F', 'I', 'W'}) {
      const auto at = [&](char kind, int which) {
        const auto found = sums.find({kind, which});
        return found == sums.end() ? std::vector<int>{} : found->second;
      };
      std::vector<int> mine = at(what, stage);
      if (what == 'F') std::sort(mine.begin(), mine.end());
      std::vector<int> first = at('W', stage / s.blocks() * s.blocks());
      if (!std::is_sorted(mine.begin(), mine.end())) return "sums out of order";
      if (mine != first) return "stages sum different micro-batches";
      if (what == 'W' && s.is_first(stage)) all.insert(all.end(), mine.begin(), mine.end());
    }
  }
  std::sort(all.begin(), all.end());
  for (int m = 0; m < s.all_micro_batches(); ++m) {
    if (static_cast<size_t>(m) >= all.size() || all[static_cast<size_t>(m)] != m)
      return "a micro-batch is missing";
  }
  return static_cast<int>(all.size()) == s.all_micro_batches() ? "" : "a micro-batch comes twice";
}

// Whether the tied accumulator of a last stage meets one of another rank.
bool meets_afar(const Schedule& s, int last) {
  const int rank = s.rank_of_stage[static_cast<size_t>(last)];
  for (int copy = 0; copy < s.copies; ++copy)
    if (s.rank_of_stage[static_cast<size_t>(copy * s.blocks())] == rank) return false;
  return true;
}

bool in_range(const Schedule& s, int rank, const Action& a) {
  return a.stage >= 0 && a.stage < s.stages() && a.micro_batch >= 0 &&
         a.micro_batch < s.all_micro_batches() && s.rank_of_stage[static_cast<size_t>(a.stage)] == rank;
}

int queue(const Instruction& i, int layout) {
  const bool compute = i.kind == InstructionKind::compute || i.kind == InstructionKind::optimizer_step;
  if (compute || layout == 0) return 0;
  if (layout == 1) return 1;
  if (i.kind == InstructionKind::send) return layout == 3 && i.action.op != Op::forward ? 2 : 3;
  if (i.kind == InstructionKind::receive) return layout == 3 && i.action.op != Op::forward ? 4 : 5;
  return 6;
}

bool touches(const Instruction& i, const Buffer& buffer) {
  return !buffer.none() && (i.input == buffer || i.output == buffer);
}

// A program in flight.
struct World {
  const Program& program;
  int layout;
  std::vector<std::vector<char>> done;
  std::vector<std::map<std::pair<int, int>, Key>> buffers;  // by rank: (pool, index) → content
  std::map<std::tuple<int, bool, int>, int> slots;          // (stage, for W, slot) → micro-batch
  std::map<std::pair<char, int>, std::vector<int>> sums;
  std::map<std::tuple<int, int, int>, int> finished;  // (kind, stage or rank, step) → how often
  std::string wrong;

  const Schedule& schedule() const { return program.schedule; }
  const std::vector<Instruction>& list(size_t rank) const { return program.ranks[rank].instructions; }

  // Nothing earlier in its queue is open, and nothing earlier touches its buffers or, for what follows the
  // weight gradients, is still to be added to them.
  bool free_to_go(size_t rank, size_t at) const {
    const Instruction& mine = list(rank)[at];
    const bool follows = mine.kind != InstructionKind::compute && !mine.is_transfer();
    for (size_t i = 0; i < at; ++i) {
      if (done[rank][i]) continue;
      const Instruction& other = list(rank)[i];
      if (queue(other, layout) == queue(mine, layout)) return false;
      if (touches(other, mine.input) || touches(other, mine.output)) return false;
      const bool adds = other.kind == InstructionKind::compute && gives_weight_gradient(other.action.op);
      if (follows && (adds || !other.is_transfer())) return false;
    }
    return true;
  }

  void fail(const std::string& reason) {
    if (wrong.empty()) wrong = reason;
  }

  Key content(size_t rank, const Buffer& buffer, bool take) {
    auto& mine = buffers[rank];
    const std::pair<int, int> place{static_cast<int>(buffer.pool), buffer.index};
    const auto found = mine.find(place);
    if (found == mine.end()) {
      fail("reads an empty buffer");
      return {};
    }
    const Key key = found->second;
    if (take) mine.erase(found);
    return key;
  }

  void store(size_t rank, const Buffer& buffer, const Key& key) {
    const int count = program.ranks[rank].buffers[static_cast<size_t>(buffer.pool)];
    if (buffer.index < 0 || buffer.index >= count) return fail("no such buffer");
    if (!buffers[rank].insert({{static_cast<int>(buffer.pool), buffer.index}, key}).second)
      fail("overwrites a buffer");
  }

  void put(const Action& a, bool for_weight, int slot) {
    const int count = (for_weight ? program.weight_slots : program.slots)[static_cast<size_t>(a.stage)];
    if (slot < 0 || slot >= count) return fail("no such slot");
    if (!slots.insert({{a.stage, for_weight, slot}, a.micro_batch}).second) fail("overwrites a slot");
  }

  void get(const Action& a, bool for_weight, int slot) {
    const auto found = slots.find({a.stage, for_weight, slot});
    if (found == slots.end() || found->second != a.micro_batch) return fail("reads another slot's data");
    slots.erase(found);
  }

  void compute(size_t rank, const Instruction& i) {
    const Action& a = i.action;
    if (!in_range(schedule(), static_cast<int>(rank), a)) return fail("not its stage");
    bool reads = false;
    for (const Key& key : needs(schedule(), a)) {
      if (std::get<1>(key) == a.stage) continue;  // held in a slot
      reads = true;
      if (content(rank, i.input, true) != key) fail("reads the wrong result");
    }
    if (a.op == Op::forward && schedule().asynchronous && i.step >= 2 &&
        finished[{static_cast<int>(InstructionKind::optimizer_step), static_cast<int>(rank), i.step - 2}] ==
            0)
      fail("before the weights of its step");
    if (a.op == Op::forward) put(a, false, i.slot);
    if (gives_input_gradient(a.op)) get(a, false, i.slot);
    if (a.op == Op::backward_input) put(a, true, i.weight_slot);
    if (a.op == Op::backward_weight) get(a, true, i.weight_slot);
    for (const Key& key : gives(a)) sums[{std::get<0>(key), a.stage}].push_back(a.micro_batch);
    const bool passes_on = a.op == Op::forward ? !schedule().is_last(a.stage)
                                               : gives_input_gradient(a.op) && !schedule().is_first(a.stage);
    if (passes_on) store(rank, i.output, gives(a)[0]);
    if ((!reads && !i.input.none()) || (!passes_on && !i.output.none()))
      fail("names a buffer it has no use for");
    if (!gives_weight_gradient(a.op) && i.last) fail("marked as the last weight gradient");
    if (!gives_weight_gradient(a.op)) return;
    // The mark of the last one: no other W of the stage and step comes after it in the list.
    const auto& mine = list(rank);
    const bool later = std::any_of(&i + 1, mine.data() + mine.size(), [&](const Instruction& other) {
      return other.kind == InstructionKind::compute && other.action.stage == a.stage &&
             gives_weight_gradient(other.action.op) &&
             other.action.micro_batch / schedule().micro_batches == a.micro_batch / schedule().micro_batches;
    });
    if (i.last == later) fail("the mark of the last weight gradient is wrong");
  }

  void transfer(size_t from, const Instruction& send, size_t to, const Instruction& receive) {
    if (send.order != receive.order) fail("two places in the global order");
    if (!send.output.none() || !receive.input.none()) fail("names a buffer it has no use for");
    const Key key = content(from, send.input, true);
    const char what = send.action.op == Op::forward ? 'F' : 'I';
    const Key named{what, send.action.stage, send.action.micro_batch};
    if (key != named || !(send.action == receive.action)) fail("carries something else than it says");
    store(to, receive.output, key);
  }

  void finish(size_t rank, const Instruction& i) {
    const bool of_rank = i.kind == InstructionKind::optimizer_step;
    const int who = of_rank ? static_cast<int>(rank) : i.action.stage;
    ++finished[{static_cast<int>(i.kind), who, i.step}];
    if (i.last != (i.kind == InstructionKind::reduce_gradients))
      fail("wrongly marked as the last");  // reduce_every = 0
    const int M = schedule().micro_batches;
    const std::vector<int> owned = schedule().stages_by_rank()[rank];
    if (!(i.kind == InstructionKind::reduce_gradients && !i.last)) {
      for (const int stage : owned) {
        if (!of_rank && stage != who) continue;
        const auto& all = sums[{'W', stage}];
        const auto of_step = [&](int m) { return m / M == i.step; };
        const auto wanted =
            std::count_if(list(rank).begin(), list(rank).end(), [&](const Instruction& other) {
              return other.kind == InstructionKind::compute && other.action.stage == stage &&
                     gives_weight_gradient(other.action.op) && of_step(other.action.micro_batch);
            });
        if (std::count_if(all.begin(), all.end(), of_step) != wanted)
          fail("before the step's weight gradients");
      }
    }
    const auto before = [&](InstructionKind kind, int stage) {
      return finished[{static_cast<int>(kind), stage, i.step}];
    };
    if (of_rank && program.options.reduce_gradients) {
      for (const int stage : owned) {
        if (before(InstructionKind::reduce_gradients, stage) == 0) fail("optimizer before the reduction");
        const bool tied =
            program.options.tied_embeddings && (schedule().is_first(stage) || schedule().is_last(stage));
        if (!tied) continue;
        // Where one rank has both stages there is one sum, under the name of the first.
        const int named =
            schedule().is_last(stage) && !meets_afar(schedule(), stage) ? first_on(stage) : stage;
        if (before(InstructionKind::sum_tied, named) == 0) fail("optimizer before the tied sum");
      }
    }
    if (of_rank && schedule().asynchronous && before(InstructionKind::agree, owned.front()) == 0)
      fail("optimizer before the agreement");
    if (i.kind == InstructionKind::agree && program.options.reduce_gradients &&
        before(InstructionKind::reduce_gradients, owned.front()) == 0) {
      fail("agreement before the reduction");
    }
    if (i.kind == InstructionKind::agree && program.options.tied_embeddings &&
        (schedule().is_first(owned.front()) || schedule().is_last(owned.front())) &&
        before(InstructionKind::sum_tied,
               meets_afar(schedule(), schedule().blocks() - 1) ? owned.front() : 0) == 0) {
      fail("agreement before the tied sum");
    }
    if (i.kind == InstructionKind::gather_parameters &&
        finished[{static_cast<int>(InstructionKind::optimizer_step), static_cast<int>(rank), i.step}] == 0) {
      fail("gather before the optimizer");
    }
    if (i.kind == InstructionKind::sum_tied && (program.options.reduce_gradients || schedule().copies == 2) &&
        before(InstructionKind::reduce_gradients, i.action.stage) == 0) {
      fail("tied sum before the reduction");
    }
  }

  // The first stage on the rank of `last`; its own copy's where both are.
  int first_on(int last) const {
    const Schedule& s = schedule();
    const int rank = s.rank_of_stage[static_cast<size_t>(last)];
    const int own = last / s.blocks() * s.blocks();
    if (s.rank_of_stage[static_cast<size_t>(own)] == rank) return own;
    return s.blocks() - own;  // the other copy's: 0 and S
  }

  // The first open instruction of `to` that is meant for `from`, of the kind that `mine` meets.
  size_t counterpart(size_t from, size_t to, InstructionKind kind) const {
    for (size_t i = 0; i < list(to).size(); ++i) {
      if (!done[to][i] && list(to)[i].kind == kind && list(to)[i].peer == static_cast<int>(from)) return i;
    }
    return list(to).size();
  }

  bool step(size_t rank, size_t at) {
    const Instruction& mine = list(rank)[at];
    if (done[rank][at] || mine.kind == InstructionKind::receive || !free_to_go(rank, at)) return false;
    const bool pair =
        mine.kind == InstructionKind::send ||
        (mine.kind != InstructionKind::compute && mine.peer >= 0 && mine.peer != static_cast<int>(rank));
    if (!pair) {
      done[rank][at] = 1;
      mine.kind == InstructionKind::compute ? compute(rank, mine) : finish(rank, mine);
      return true;
    }
    const auto to = static_cast<size_t>(mine.peer);
    const bool send = mine.kind == InstructionKind::send;
    const size_t other = counterpart(rank, to, send ? InstructionKind::receive : mine.kind);
    if (other == list(to).size() || !free_to_go(to, other)) return false;
    done[rank][at] = 1;
    done[to][other] = 1;
    if (send) {
      transfer(rank, mine, to, list(to)[other]);
    } else {
      finish(rank, mine);
      finish(to, list(to)[other]);
    }
    return true;
  }

  std::string run() {
    for (const RankProgram& each : program.ranks) done.emplace_back(each.instructions.size(), 0);
    buffers.resize(program.ranks.size());
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
        for (size_t at = 0; at < list(rank).size(); ++at) moved = step(rank, at) || moved;
      }
      if (!wrong.empty()) return wrong;
    }
    for (const auto& each : done) {
      if (std::count(each.begin(), each.end(), 0) > 0) return "stuck";
    }
    for (const auto& each : buffers) {
      if (!each.empty()) return "a result that nothing read";
    }
    if (!slots.empty()) return "a slot that is never freed";
    const std::string sum = check_sums(schedule(), sums);
    return sum.empty() ? check_finished() : sum;
  }

  std::string check_finished() {
    const Schedule& s = schedule();
    const auto count = [&](InstructionKind kind, int who, int step) {
      return finished[{static_cast<int>(kind), who, step}];
    };
    for (int step = 0; step < s.steps; ++step) {
      for (int rank = 0; rank < s.ranks; ++rank) {
        if (count(InstructionKind::optimizer_step, rank, step) != 1) return "not one optimizer step";
        const int first = s.stages_by_rank()[static_cast<size_t>(rank)].front();
        if (count(InstructionKind::agree, first, step) != (s.asynchronous ? 1 : 0))
          return "not one agreement";
      }
      for (int stage = 0; stage < s.stages(); ++stage) {
        const int reductions = program.options.reduce_gradients || s.copies == 2 ? 1 : 0;
        if (count(InstructionKind::reduce_gradients, stage, step) != reductions) return "not one reduction";
        const bool tied = program.options.tied_embeddings &&
                          (s.is_first(stage) || (s.is_last(stage) && meets_afar(s, stage)));
        if (count(InstructionKind::sum_tied, stage, step) != (tied ? 1 : 0)) return "not one tied sum";
        const int gathers = program.options.sharded_optimizer ? 1 : 0;
        if (count(InstructionKind::gather_parameters, stage, step) != gathers) return "not one gather";
      }
    }
    return "";
  }
};

std::string check_lists(const Program& program) {
  std::set<int> orders;
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    int last = -1;
    const auto& list = program.ranks[rank].instructions;
    for (size_t i = 0; i < list.size(); ++i) {
      const Instruction& at = list[i];
      if (at.order >= 0 && at.order <= last) return "not in the global order";
      last = std::max(last, at.order);
      if (at.is_transfer() && at.order < 0) return "a message without a place";
      if (at.kind != InstructionKind::receive) continue;
      int ahead = 0;
      for (size_t k = i + 1;
           k < list.size() && !(list[k].kind == InstructionKind::compute && list[k].input == at.output);
           ++k) {
        if (list[k].kind == InstructionKind::compute) ++ahead;
      }
      if (ahead > program.options.receive_lead) return "posted too early";
    }
  }
  return "";
}

}  // namespace

std::string problem(const Schedule& schedule) {
  std::set<Key> there;
  std::map<std::pair<char, int>, std::vector<int>> sums;
  std::vector<size_t> next(schedule.actions.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t rank = 0; rank < schedule.actions.size(); ++rank) {
      if (next[rank] == schedule.actions[rank].size()) continue;
      const Action& a = schedule.actions[rank][next[rank]];
      if (!in_range(schedule, static_cast<int>(rank), a)) return "not its stage";
      const std::vector<Key> wanted = needs(schedule, a);
      if (!std::all_of(wanted.begin(), wanted.end(), [&](const Key& key) { return there.count(key) > 0; }))
        continue;
      for (const Key& key : gives(a)) {
        if (!there.insert(key).second) return "computed twice";
        sums[{std::get<0>(key), a.stage}].push_back(a.micro_batch);
      }
      ++next[rank];
      moved = true;
    }
  }
  for (size_t rank = 0; rank < next.size(); ++rank) {
    if (next[rank] < schedule.actions[rank].size()) return "stuck";
  }
  return check_sums(schedule, sums);
}

std::string problem(const Program& program) {
  std::string wrong = check_lists(program);
  for (int layout = 0; layout < 4 && wrong.empty(); ++layout)
    wrong = World{program, layout, {}, {}, {}, {}, {}, {}}.run();
  return wrong;
}

double makespan(const Schedule& schedule, const Costs& costs, double latency) {
  std::map<Key, std::pair<double, int>> there;  // when, on which rank
  std::vector<size_t> next(schedule.actions.size(), 0);
  std::vector<double> free_at(schedule.actions.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t rank = 0; rank < schedule.actions.size(); ++rank) {
      while (next[rank] < schedule.actions[rank].size()) {
        const Action& a = schedule.actions[rank][next[rank]];
        double start = free_at[rank];
        bool all = true;
        for (const Key& key : needs(schedule, a)) {
          const auto found = there.find(key);
          all = all && found != there.end();
          if (!all) break;
          const bool far = found->second.second != static_cast<int>(rank);
          start = std::max(start, found->second.first + (far ? latency : 0));
        }
        if (!all) break;
        const StageCosts& block = costs.blocks[static_cast<size_t>(schedule.block_of(a.stage))];
        free_at[rank] =
            start + (a.op == Op::forward           ? block.forward
                     : a.op == Op::backward_input  ? block.backward_input
                     : a.op == Op::backward_weight ? block.backward_weight
                                                   : block.backward_input + block.backward_weight);
        for (const Key& key : gives(a)) there[key] = {free_at[rank], static_cast<int>(rank)};
        ++next[rank];
        moved = true;
      }
    }
  }
  return *std::max_element(free_at.begin(), free_at.end());
}

}  // namespace penstock::schedule::oracle
