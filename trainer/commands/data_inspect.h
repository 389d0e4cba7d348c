#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

namespace penstock::commands {

struct DataInspectOptions {
  std::string prefix;
  std::string tokenizer;           ///< "": none
  std::optional<uint64_t> sample;  ///< of `length` + 1 tokens, as training reads them
  int64_t length = 64;
  std::optional<uint64_t> seed;  ///< none: in the file's order
  uint64_t epoch = 0;
  std::string headerless;                 ///< "", "uint16" or "uint32"
  std::optional<int32_t> document_token;  ///< of a headerless file
  bool json = false;
  bool write_side_car = false;
};

/// `penstock data inspect`: checks token files of any format to the last byte and prints what is in them.
/// Throws data::DataError.
void run_data_inspect(const DataInspectOptions& options);

/// Registers `inspect` under `parent`; when it is the command given, its callback runs it and sets exit_code.
CLI::App* add_data_inspect(CLI::App& parent, int& exit_code);

}  // namespace penstock::commands
