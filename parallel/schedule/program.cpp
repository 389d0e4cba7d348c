#include "parallel/schedule/program.h"

#include <fmt/format.h>

namespace penstock::schedule {

const char* to_string(InstructionKind kind) {
  switch (kind) {
    case InstructionKind::compute:
      return "compute";
    case InstructionKind::send:
      return "send";
    case InstructionKind::receive:
      return "receive";
    case InstructionKind::reduce_gradients:
      return "reduce gradients";
    case InstructionKind::sum_tied:
      return "sum tied gradients";
    case InstructionKind::agree:
      return "agree";
    case InstructionKind::optimizer_step:
      return "optimizer step";
    case InstructionKind::gather_parameters:
      return "gather parameters";
  }
  return "?";
}

const char* to_string(BufferPool pool) {
  switch (pool) {
    case BufferPool::activation_in:
      return "activation_in";
    case BufferPool::activation_out:
      return "activation_out";
    case BufferPool::gradient_in:
      return "gradient_in";
    case BufferPool::gradient_out:
      return "gradient_out";
  }
  return "?";
}

std::string to_string(const Instruction& instruction) {
  switch (instruction.kind) {
    case InstructionKind::compute:
      return to_string(instruction.action);
    case InstructionKind::send:
      return fmt::format("send {} to rank {}", to_string(instruction.action), instruction.peer);
    case InstructionKind::receive:
      return fmt::format("receive {} from rank {}", to_string(instruction.action), instruction.peer);
    case InstructionKind::agree:
    case InstructionKind::optimizer_step:
      return to_string(instruction.kind);
    case InstructionKind::reduce_gradients:
      if (!instruction.last)
        return fmt::format("reduce gradients of stage {} up to {}", instruction.action.stage,
                           to_string(instruction.action));
      [[fallthrough]];
    default:
      return fmt::format("{} of stage {}", to_string(instruction.kind), instruction.action.stage);
  }
}

std::string in_words(const Instruction& instruction) {
  if (instruction.kind == InstructionKind::compute) return in_words(instruction.action);
  if (instruction.is_transfer())
    return fmt::format("{} {}", to_string(instruction.kind), in_words(instruction.action));
  return to_string(instruction);
}

}  // namespace penstock::schedule
