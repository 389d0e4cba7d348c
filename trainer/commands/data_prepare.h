#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "data/document_reader.h"
#include "data/tokenizer.h"
#include "trainer/job/exit_code.h"

namespace penstock::commands {

struct DataPrepareOptions {
  std::vector<std::string> inputs;  ///< files, patterns, "-"
  bool json_lines = false;          ///< whatever their names
  std::string tokenizer;
  std::string output;                                ///< prefix
  std::optional<data::DocumentSeparator> separator;  ///< none: DocumentSeparator::file
  std::optional<data::InvalidText> invalid;          ///< none: InvalidText::refuse
  double validation_fraction = 0;                    ///< [0, 1)
  uint64_t validation_documents = 0;                 ///< at most; 0: no limit
  std::string end_of_text;                           ///< empty: the tokenizer's
  uint64_t save_every = uint64_t{256} << 20;         ///< bytes of text
  bool restart = false;                              ///< what was left off is forgotten
};

/// `penstock data prepare`: text to `<output>.idx/.bin` and, for a fraction above 0,
/// `<output>-validation.idx/.bin`, each document followed by the end-of-text token, and behind the token that
/// the tokenizer puts in front of a text, if it has one. A signal stops it (ExitCode::stopped; interrupted
/// where an input is a pipe); the same call goes on then, and after any other end. Throws data::DataError;
/// then no output has changed.
ExitCode run_data_prepare(const DataPrepareOptions& options);

/// Registers `prepare` under `parent`; when it is the command given, its callback runs it and sets exit_code.
CLI::App* add_data_prepare(CLI::App& parent, int& exit_code);

}  // namespace penstock::commands
