#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

namespace penstock::commands {

struct DataInspectOptions {
  std::string prefix;
  std::string tokenizer;           ///< "": none
  std::optional<uint64_t> sample;  ///< which piece of `length` tokens to show
  int64_t length = 64;
  bool json = false;
  bool write_side_car = false;
};

/// `penstock data inspect`: checks a pair of token files to the last byte and prints what is in it. Throws
/// data::DataError.
void run_data_inspect(const DataInspectOptions& options);

/// Registers `inspect` under `parent`; when it is the command given, its callback runs it and sets exit_code.
CLI::App* add_data_inspect(CLI::App& parent, int& exit_code);

}  // namespace penstock::commands
