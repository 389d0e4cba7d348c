#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

namespace penstock::commands {

/// The bytes that a size stands for: a number with KB, MB, GB, TB (powers of 1000) or KiB, MiB, GiB, TiB
/// (of 1024), without a unit bytes. Nothing for other text, and for less than one byte.
std::optional<uint64_t> byte_size(const std::string& text);

/// Accepts what byte_size() reads.
CLI::Validator is_byte_size();

}  // namespace penstock::commands
