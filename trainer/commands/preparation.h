#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/document_reader.h"
#include "data/ordered_encoder.h"
#include "data/token_writer.h"
#include "data/tokenizer.h"
#include "trainer/commands/data_prepare.h"
#include "trainer/commands/document_split.h"
#include "trainer/commands/input_files.h"
#include "trainer/commands/preparation_state.h"
#include "trainer/report/progress_bar.h"

namespace penstock::commands {

/// One `data prepare`: takes pieces of documents in order and writes their tokens to the training or the
/// validation file. Every so many bytes of text what is done is brought to disk, then how far it is: the same
/// command goes on from there, to the same bytes.
class Preparation {
 public:
  /// Opens inputs and outputs. Throws data::DataError. `options` and `tokenizer` must outlive this.
  Preparation(const data::Tokenizer& tokenizer, const DataPrepareOptions& options);

  /// Does what is left to do. False: it was asked to stop, and left what the same command goes on from.
  /// Throws data::DataError; what was saved before is kept then too.
  bool run();

  /// Whether the same command can go on after it was stopped: no input is a pipe.
  bool can_go_on() const { return total_.has_value(); }

 private:
  void open_outputs();
  nlohmann::json request() const;
  void read_inputs(report::ProgressBar& bar);
  void read_input(data::DocumentReader& reader, report::ProgressBar& bar);
  void add_piece(const data::DocumentPiece& piece, std::optional<uint64_t> tail);
  std::optional<uint64_t> validation_tail(const data::DocumentReader& reader) const;
  void add_by_tail(const data::DocumentPiece& piece, uint64_t tail);
  bool draws() const;
  void add(std::string_view text, bool validation);
  void end_document(bool validation);
  void take(std::span<const int32_t> tokens, uint64_t tag);
  void count_invalid(const data::DocumentPiece& piece);
  void note_invalid(const data::DocumentReader& reader);
  void save(const data::DocumentPosition& position, bool complete);
  bool finish();
  void refuse_nothing() const;
  void describe() const;

  const DataPrepareOptions& options_;
  const data::Tokenizer& tokenizer_;
  int32_t end_of_text_;
  std::vector<InputFile> inputs_;
  std::optional<uint64_t> total_;  // bytes of all inputs; none: one is a pipe, and nothing can go on from it
  std::string prefix_;
  std::string state_path_;
  data::DocumentSeparator separator_;
  data::InvalidText invalid_;
  DocumentDraw draw_;
  PreparationState state_;
  std::optional<data::TokenWriter> training_;
  std::optional<data::TokenWriter> validation_;
  bool goes_on_ = false;  // from a state on disk, for the first input that is read
  bool saved_ = false;    // a state is on disk
  bool stopped_ = false;
  uint64_t unsaved_bytes_ = 0;                   // of text
  uint64_t read_bytes_ = 0;                      // of the files, of inputs before this one
  std::optional<data::OrderedEncoder> encoder_;  // the last: its threads end before what take() uses
};

}  // namespace penstock::commands
