#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "data/document_reader.h"
#include "data/token_writer.h"
#include "trainer/commands/input_files.h"

namespace penstock::commands {

/// How far a `data prepare` is, between two pieces of text: with the partial token files, all that the same
/// command needs to go on.
struct PreparationState {
  nlohmann::json request;         ///< what was asked for: the same, or it is another preparation
  std::vector<InputFile> inputs;  ///< the same, too
  bool complete = false;          ///< all tokens are written; the files may have their names already
  uint64_t input = 0;             ///< the one that is read
  data::DocumentPosition position;
  uint64_t file_bytes = 0;  ///< of all inputs so far, as they are packed: for progress
  uint64_t documents = 0;
  uint64_t validation_documents = 0;
  uint64_t text_bytes = 0;
  uint64_t invalid = 0;  ///< of this input: bytes that are no UTF-8; of JSON, documents that are not Unicode
  uint64_t first_invalid = 0;  ///< byte; of JSON, line
  bool document_open = false;
  bool in_tail = false;  ///< behind where a file was cut for validation
  std::vector<std::string> notes;
  data::TokenWriterState training;
  std::optional<data::TokenWriterState> validation;
};

/// `<output>.preparation.json`.
std::string preparation_path(const std::string& output);

/// Replaces it durably. Throws data::WriteError.
void save_preparation(const std::string& path, const PreparationState& state);

/// Nothing where there is no such file. Throws data::DataError where it is not one of ours.
std::optional<PreparationState> load_preparation(const std::string& path);

/// Removes it durably.
void remove_preparation(const std::string& path);

}  // namespace penstock::commands
