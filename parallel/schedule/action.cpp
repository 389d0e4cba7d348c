#include "parallel/schedule/action.h"

#include <fmt/format.h>

namespace penstock::schedule {

char letter(Op op) {
  switch (op) {
    case Op::forward:
      return 'F';
    case Op::backward_input:
      return 'I';
    case Op::backward_weight:
      return 'W';
    case Op::backward:
      return 'B';
  }
  return '?';
}

std::string to_string(const Action& action) {
  return fmt::format("{}{}{}", action.stage, letter(action.op), action.micro_batch);
}

std::string in_words(const Action& action) {
  return fmt::format("{} {} of stage {}", letter(action.op), action.micro_batch, action.stage);
}

}  // namespace penstock::schedule
