#include "parallel/schedule/wiring.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace penstock::schedule {

namespace {

// Who wrote a buffer last and who has read it since.
struct Users {
  int writer = -1;
  int reader = -1;
};

class RankHazards {
 public:
  RankHazards(const Program& program, size_t rank, int first, std::vector<int>& gradients)
      : first_(first),
        reduce_every_(program.options.reduce_gradients ? program.options.reduce_every : 0),
        steps_(static_cast<size_t>(program.schedule.steps)),
        gradients_(gradients) {
    for (size_t pool = 0; pool < buffer_pools; ++pool) {
      buffers_[pool].resize(static_cast<size_t>(std::max(0, program.ranks[rank].buffers[pool])));
    }
  }

  std::array<int, 3> add(int id, const Instruction& instruction, const Schedule& schedule) {
    std::array<int, 3> waits{-1, -1, -1};
    if (Users* users = find(instruction.input)) {
      waits[0] = users->writer;
      users->reader = id;
    }
    if (Users* users = find(instruction.output)) {
      waits[1] = users->reader >= 0 ? users->reader : users->writer;
      *users = {id, -1};
    }
    switch (instruction.kind) {
      case InstructionKind::compute:
        if (gives_weight_gradient(instruction.action.op)) gradients_[place(instruction)] = id;
        if (reduce_every_ > 0) waits[2] = accumulate(id, instruction);
        break;
      case InstructionKind::send:
        sent_[instruction.step] = id;
        break;
      case InstructionKind::receive:
        break;
      case InstructionKind::sum_tied: {
        // The two accumulators are both here where the rank owns a first and a last stage.
        waits[2] = gradient(place(instruction, schedule.blocks() - 1));
        if (schedule.copies > 1) waits[1] = gradient(place(instruction, schedule.stages() - 1));
        [[fallthrough]];
      }
      default:
        if (instruction.kind == InstructionKind::reduce_gradients && !instruction.last) {
          Half& half = halves_[key(instruction, instruction.action.op)];
          waits[0] = half.action_of(instruction.action.micro_batch);
          half.reductions.push_back(id);
          collective_ = id;
          break;
        }
        if (instruction.kind == InstructionKind::optimizer_step) {
          const auto agreed = agreed_.find(instruction.step);
          waits[0] = agreed == agreed_.end() ? collective_ : agreed->second;
          optimizer_ = id;
          break;
        }
        waits[0] = gradient(place(instruction));
        if (instruction.kind == InstructionKind::agree) {
          // All of the rank's step is behind it, as far as it is not the optimizer's.
          const auto sent = sent_.find(instruction.step);
          if (sent != sent_.end()) waits[1] = sent->second;
          agreed_[instruction.step] = id;
          break;
        }
        if (instruction.kind == InstructionKind::gather_parameters) waits[1] = optimizer_;
        gradients_[place(instruction)] = id;
        collective_ = id;
    }
    return waits;
  }

 private:
  // What accumulates in the I, or in the W, of a stage and step: those actions, and the partial reductions.
  struct Half {
    std::vector<std::pair<int, int>> actions;  // micro-batch, number
    std::vector<int> reductions;

    int action_of(int micro_batch) const {
      const auto found = std::find_if(actions.begin(), actions.end(),
                                      [&](const auto& each) { return each.first == micro_batch; });
      return found == actions.end() ? -1 : found->second;
    }
  };
  using HalfKey = std::tuple<int, int, Op>;
  static HalfKey key(const Instruction& instruction, Op half) {
    return {instruction.action.stage, instruction.step, half};
  }

  // The reduction that has to be done before the action opens a window; −1: none. Of two (a full backward)
  // the later one: reductions are in one queue.
  int accumulate(int id, const Instruction& instruction) {
    const auto every = static_cast<size_t>(reduce_every_);
    int reduction = -1;
    for (const Op op : {Op::backward_input, Op::backward_weight}) {
      const bool acts = op == Op::backward_input ? gives_input_gradient(instruction.action.op)
                                                 : gives_weight_gradient(instruction.action.op);
      if (!acts) continue;
      Half& half = halves_[key(instruction, op)];
      const size_t window = half.actions.size() / every;
      const bool opens = half.actions.size() % every == 0;
      half.actions.emplace_back(instruction.action.micro_batch, id);
      if (opens && window >= 2 && half.reductions.size() > window - 2)
        reduction = std::max(reduction, half.reductions[window - 2]);
    }
    return reduction;
  }

  // Of the gradients of a stage, by default the instruction's, in the instruction's step.
  size_t place(const Instruction& instruction, int stage) const {
    return static_cast<size_t>(stage) * steps_ + static_cast<size_t>(instruction.step);
  }
  size_t place(const Instruction& instruction) const { return place(instruction, instruction.action.stage); }

  int gradient(size_t place) const { return gradients_[place] >= first_ ? gradients_[place] : -1; }

  Users* find(const Buffer& buffer) {
    auto& pool = buffers_[static_cast<size_t>(buffer.pool)];
    return buffer.none() || static_cast<size_t>(buffer.index) >= pool.size()
               ? nullptr
               : &pool[static_cast<size_t>(buffer.index)];
  }

  std::array<std::vector<Users>, buffer_pools> buffers_;
  // The rank's first instruction.
  int first_;
  int reduce_every_;
  std::map<HalfKey, Half> halves_;
  size_t steps_;
  // By stage and step: what touched its gradients last. All ranks share it; what lies before first_ is
  // another rank's.
  std::vector<int>& gradients_;
  std::map<int, int> agreed_;  // by step
  std::map<int, int> sent_;    // by step: the last message
  int collective_ = -1;
  int optimizer_ = -1;
};

// Both ends of what is exchanged between two ranks, in the order in which each posts it.
struct Exchange {
  std::vector<int> here;
  std::vector<int> there;
};

bool carry_the_same(const Instruction& a, const Instruction& b) {
  if (a.order != b.order || a.step != b.step) return false;
  return a.is_transfer() ? a.action == b.action : a.kind == b.kind;
}

}  // namespace

int Wiring::rank_of(int id) const {
  return static_cast<int>(std::upper_bound(first.begin(), first.end(), id) - first.begin()) - 1;
}

const Instruction& Wiring::at(const Program& program, int id) const {
  const int rank = rank_of(id);
  return program.ranks[static_cast<size_t>(rank)]
      .instructions[static_cast<size_t>(id - first[static_cast<size_t>(rank)])];
}

Wiring wire(const Program& program, std::vector<Violation>& found) {
  Wiring wiring;
  wiring.first.push_back(0);
  // Transfers by (source, destination); collectives of two ranks by (−1 − smaller, larger).
  std::map<std::pair<int, int>, Exchange> exchanges;
  std::vector<int> gradients(program.slots.size() * static_cast<size_t>(program.schedule.steps), -1);
  for (int rank = 0; rank < program.schedule.ranks; ++rank) {
    RankHazards hazards(program, static_cast<size_t>(rank), wiring.first.back(), gradients);
    for (const Instruction& instruction : program.ranks[static_cast<size_t>(rank)].instructions) {
      const int id = static_cast<int>(wiring.waits_for.size());
      wiring.waits_for.push_back(hazards.add(id, instruction, program.schedule));
      if (instruction.kind == InstructionKind::send) {
        exchanges[{rank, instruction.peer}].here.push_back(id);
      } else if (instruction.kind == InstructionKind::receive) {
        exchanges[{instruction.peer, rank}].there.push_back(id);
      } else if (instruction.peer >= 0 && instruction.peer != rank) {
        Exchange& pair = exchanges[{-1 - std::min(rank, instruction.peer), std::max(rank, instruction.peer)}];
        (rank < instruction.peer ? pair.here : pair.there).push_back(id);
      }
    }
    wiring.first.push_back(static_cast<int>(wiring.waits_for.size()));
  }
  wiring.partner.assign(wiring.waits_for.size(), -1);
  for (const auto& [ends, pair] : exchanges) {
    const auto report = [&](int id, std::string reason) {
      const int rank = wiring.rank_of(id);
      if (found.size() >= max_violations) return;
      found.push_back({rank, id - wiring.first[static_cast<size_t>(rank)], to_string(wiring.at(program, id)),
                       std::move(reason)});
    };
    const size_t both = std::min(pair.here.size(), pair.there.size());
    for (size_t i = 0; i < both; ++i) {
      wiring.partner[static_cast<size_t>(pair.here[i])] = pair.there[i];
      wiring.partner[static_cast<size_t>(pair.there[i])] = pair.here[i];
      const Instruction& here = wiring.at(program, pair.here[i]);
      const Instruction& there = wiring.at(program, pair.there[i]);
      if (carry_the_same(here, there)) continue;
      report(pair.here[i],
             fmt::format("place {} in the global order meets \"{}\", place {}, of rank {}: both ends must "
                         "post the same messages in the same order",
                         here.order, to_string(there), there.order, wiring.rank_of(pair.there[i])));
      break;  // all later ones of this pair are shifted
    }
    const auto& longer = pair.here.size() > both ? pair.here : pair.there;
    if (longer.size() > both) {
      report(longer[both],
             fmt::format("has no counterpart on rank {}", wiring.at(program, longer[both]).peer));
    }
  }
  return wiring;
}

}  // namespace penstock::schedule
