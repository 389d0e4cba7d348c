// A pipeline schedule as data: what every rank computes in one step, in which order.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "parallel/schedule/action.h"

namespace penstock::schedule {

// What a schedule is asked for. P = ranks, M = micro_batches, v = chunks, S = P * v stages.
struct ScheduleOptions {
  int ranks = 1;
  int micro_batches = 1;
  // Chunks a rank; 0 takes the schedule's own default.
  int chunks = 0;
  // 1f1b: extra warm-up forwards on every rank but the last.
  int warmup_slack = 0;
  // interleaved: micro-batches a group; 0 takes the smallest group that is allowed.
  int group = 0;
  // Asynchronous schedules (2bw) only: consecutive steps to list, without a flush between them.
  int steps = 1;
};

// Limits of what is generated, so that a slip of the finger is an error and not an out-of-memory.
inline constexpr int max_ranks = 4096;
inline constexpr int max_micro_batches = 1 << 20;
inline constexpr int max_chunks = 256;
inline constexpr int max_stages = 1 << 16;
inline constexpr long max_actions = 24L << 20;

// A schedule that cannot be generated, read, lowered or simulated; the message says why and what would work.
class ScheduleError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Schedule {
  std::string name;
  int ranks = 1;
  int chunks = 1;
  // Micro-batches of one step. Those of step t (t > 0 only where steps > 1) are numbered from t *
  // micro_batches on.
  int micro_batches = 1;
  // Copies of the weights that run at once (DualPipe, Chimera: 2). Stage S + i is block i of the second copy.
  int copies = 1;
  // Steps that are listed; more than one only for asynchronous schedules.
  int steps = 1;
  // No flush between steps: the weights are updated while micro-batches of the next step are in flight.
  bool asynchronous = false;
  // (copies * S): the rank that owns a stage.
  std::vector<int> rank_of_stage;
  // (P): the actions of each rank in order.
  std::vector<std::vector<Action>> actions;

  // S, the stages of one copy.
  int blocks() const { return ranks * chunks; }
  // All stages, copies included.
  int stages() const { return blocks() * copies; }
  int all_micro_batches() const { return micro_batches * steps; }
  // The place in the model, 0 … S−1.
  int block_of(int stage) const { return stage % blocks(); }
  bool is_first(int stage) const { return block_of(stage) == 0; }
  bool is_last(int stage) const { return block_of(stage) == blocks() - 1; }
  // (P): the stages of each rank, ascending.
  std::vector<std::vector<int>> stages_by_rank() const;
};

// Why ranks cannot hold the schedule's two copies of the weights, or "": P must be even, and stage S + i on
// rank P − 1 − r where stage i is on rank r, so that two ranks hold the same blocks.
std::string copies_refusal(const Schedule& schedule);

// The last stage whose accumulator of a tied weight is added to that of a copy's first stage: one on the same
// rank if there is one (reduced, the copies' accumulators are the same), else the copy's own.
int tied_head(const Schedule& schedule, int copy);
// The ranks of such a first and last stage where they are two, a copy each.
std::vector<std::pair<int, int>> tied_exchanges(const Schedule& schedule);

// Peak activations that a rank holds, from F to W (or B), in full-rank units: a chunk's counts 1/v.
double peak_slots(const Schedule& schedule, int rank);

}  // namespace penstock::schedule
