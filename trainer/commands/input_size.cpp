#include "trainer/commands/input_size.h"

#include <filesystem>

#include "data/byte_source.h"

namespace penstock::commands {

std::optional<uint64_t> total_input_bytes(const std::vector<std::string>& inputs) {
  uint64_t total = 0;
  bool known = true;
  for (const std::string& input : inputs) {
    // A pipe may be opened only once: opening it to ask and closing it would end its writer.
    std::error_code error;
    const auto status = std::filesystem::status(input, error);
    if (input == "-" || std::filesystem::is_fifo(status) || std::filesystem::is_character_file(status)) {
      known = false;
      continue;
    }
    const data::ByteSource source(input);
    total += source.size().value_or(0);
  }
  return known ? std::optional<uint64_t>(total) : std::nullopt;
}

}  // namespace penstock::commands
