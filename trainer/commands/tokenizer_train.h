#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace penstock::commands {

struct TokenizerTrainOptions {
  std::vector<std::string> inputs;
  bool json_lines = false;
  int64_t vocabulary = 0;
  int64_t min_frequency = 2;
  std::string output;
};

/// `penstock tokenizer train`: byte-level BPE from text files, saved as a Hugging Face tokenizer.json. Throws
/// data::DataError.
void run_tokenizer_train(const TokenizerTrainOptions& options);

/// Registers `train` under `parent`; when it is the command given, its callback runs it and sets exit_code.
CLI::App* add_tokenizer_train(CLI::App& parent, int& exit_code);

}  // namespace penstock::commands
