// A schedule lowered to what each rank enqueues in one step: compute, messages and reductions with their
// slots and buffers. The executor walks the list once a step and puts each instruction on its stream: compute
// on the compute stream, send and receive on theirs, reductions, sums and gathers on the reduction stream. An
// instruction waits for the earlier instructions of its list that wrote what it reads, or still use what it
// writes (wiring.h).
#pragma once

#include <array>
#include <string>
#include <vector>

#include "parallel/schedule/action.h"
#include "parallel/schedule/costs.h"
#include "parallel/schedule/schedule.h"

namespace penstock::schedule {

enum class InstructionKind : std::uint8_t {
  compute,
  send,
  receive,
  reduce_gradients,  // a stage's gradients, over the replicas and over the copies of the weights
  sum_tied,          // the tied embedding's two accumulators, over the ranks of the first and the last stage
  // Asynchronous schedules: all ranks of all replicas agree on norm and losses, beside the next step's
  // actions. Elsewhere the optimizer step begins with it.
  agree,
  optimizer_step,     // the rank's; the point where a step needs its global answer (norm, vote)
  gather_parameters,  // a stage's, over the replicas (sharded optimizer)
};

const char* to_string(InstructionKind kind);

// Buffers of a rank for what crosses a stage boundary, all of one size a pool: of activations and of
// gradients, those that arrive and those that leave. A hand-over between two stages of one rank stays in the
// producer's buffer.
enum class BufferPool : std::uint8_t { activation_in, activation_out, gradient_in, gradient_out };
inline constexpr size_t buffer_pools = 4;
const char* to_string(BufferPool pool);

struct Buffer {
  BufferPool pool = BufferPool::activation_in;
  int index = -1;
  bool none() const { return index < 0; }
  friend bool operator==(const Buffer&, const Buffer&) = default;
};

struct Instruction {
  InstructionKind kind = InstructionKind::compute;
  // compute: the action. send, receive: the action whose result is carried (F: an activation, I or B: a
  // gradient). Sums, reductions, gathers: the stage. reduce_gradients, not the last: the action that ended
  // the window; what accumulates in I where it is an I, in W where it is a W.
  Action action;
  // send, receive, sum_tied, and reduce_gradients and gather_parameters over copies: the rank at the other
  // end (the rank itself where both ends are on it).
  int peer = -1;
  // Place among all messages and collectives of the step; −1 for what needs no other rank. Ascending in every
  // list.
  int order = -1;
  // The step of an asynchronous schedule's window; 0 otherwise.
  int step = 0;
  // compute: what it reads and writes. send: `input`. receive: `output`.
  Buffer input;
  Buffer output;
  // compute: the stage's slot of activations, F to I or B, and of what W needs, I to W.
  int slot = -1;
  int weight_slot = -1;
  // compute: the stage's last weight gradient of the step. reduce_gradients: the last of the step.
  bool last = false;

  bool is_transfer() const { return kind == InstructionKind::send || kind == InstructionKind::receive; }
  bool carries_gradient() const { return action.op != Op::forward; }
};

// "3F7", "send 3F7 to rank 2", "reduce gradients of stage 3".
std::string to_string(const Instruction& instruction);
// "F 7 of stage 3", "send F 7 of stage 3", "reduce gradients of stage 3".
std::string in_words(const Instruction& instruction);

struct LoweringOptions {
  // A paired F and B (DualPipe) run as one indivisible action: both inputs first, both outputs at the end.
  bool fuse_pairs = false;
  // A receive is posted at most that many actions ahead of the one that reads it; a fused pair counts as one.
  int receive_lead = 1;
  // There are replicas: gradients are reduced, in windows of so many micro-batches (0: once a step). Those of
  // two copies always are, and once a step.
  bool reduce_gradients = true;
  int reduce_every = 0;
  // The first and the last stage share a weight.
  bool tied_embeddings = false;
  // The optimizer is sharded over the replicas and copies: parameters are gathered after it, or rather, once
  // one step ends before the next begins, beside the next one's first forwards (step_list.h).
  bool sharded_optimizer = false;
};

struct RankProgram {
  std::vector<Instruction> instructions;
  // Buffers a pool.
  std::array<int, buffer_pools> buffers{};
};

struct Program {
  // Its action lists are those of the compute instructions.
  Schedule schedule;
  LoweringOptions options;
  std::vector<RankProgram> ranks;
  // (all stages): slots of each stage.
  std::vector<int> slots;
  std::vector<int> weight_slots;
  // Messages and collectives; `order` runs from 0 to this.
  int orders = 0;
};

// Lowers a valid schedule; `costs` decides which transfer comes first in the global order, so that the order
// costs nothing. Throws ScheduleError for a schedule that is not valid.
Program lower(const Schedule& schedule, const Costs& costs, const LoweringOptions& options);

// The smallest of the leads 1, 2, 4, … with which the lowered program is as fast as with unbounded buffers.
int sufficient_receive_lead(const Schedule& schedule, const Costs& costs, LoweringOptions options = {});

}  // namespace penstock::schedule
