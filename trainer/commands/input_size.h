#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace penstock::commands {

/// Bytes of all inputs, or nothing where one of them is a pipe. Throws data::DataError for an input that
/// cannot be opened, so that a wrong name among many is noticed before the work starts.
std::optional<uint64_t> total_input_bytes(const std::vector<std::string>& inputs);

}  // namespace penstock::commands
