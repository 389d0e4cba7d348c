// One entry of a pipeline schedule: an operation of a stage on a micro-batch.
#pragma once

#include <cstdint>
#include <string>

namespace penstock::schedule {

// `backward` is backward_input followed by backward_weight, as one action.
enum class Op : std::uint8_t { forward, backward_input, backward_weight, backward };

// The letter of PyTorch's notation: F, I, W, B.
char letter(Op op);

struct Action {
  Op op = Op::forward;
  int stage = 0;
  int micro_batch = 0;
  // A forward that may run interleaved, kernel by kernel, with the backward after it on its rank ("F&B" of
  // DualPipe).
  bool paired = false;

  friend bool operator==(const Action&, const Action&) = default;
};

// "3F7": forward of stage 3 on micro-batch 7.
std::string to_string(const Action& action);

// "F 7 of stage 3": the same for people.
std::string in_words(const Action& action);

// True for the actions that turn the output's gradient into the input's.
inline bool gives_input_gradient(Op op) {
  return op == Op::backward_input || op == Op::backward;
}

// True for the actions after which a micro-batch's activations are no longer needed.
inline bool gives_weight_gradient(Op op) {
  return op == Op::backward_weight || op == Op::backward;
}

}  // namespace penstock::schedule
