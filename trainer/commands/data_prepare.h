#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "data/document_reader.h"
#include "data/tokenizer.h"

namespace penstock::commands {

struct DataPrepareOptions {
  std::vector<std::string> inputs;
  std::string tokenizer;
  std::string output;  ///< prefix
  data::DocumentSeparator separator = data::DocumentSeparator::file;
  double validation_fraction = 0;  ///< [0, 1)
  std::string end_of_text;         ///< empty: the tokenizer's
};

/// `penstock data prepare`: text to `<output>.idx/.bin` and, for a fraction above 0,
/// `<output>-validation.idx/.bin`, each document followed by the end-of-text token, and behind the token that
/// the tokenizer puts in front of a text, if it has one. Throws data::DataError;
/// then no output has changed.
void run_data_prepare(const DataPrepareOptions& options);

/// Registers `prepare` under `parent`; when it is the command given, its callback runs it and sets exit_code.
CLI::App* add_data_prepare(CLI::App& parent, int& exit_code);

}  // namespace penstock::commands
