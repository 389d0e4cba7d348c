#include "trainer/commands/preparation.h"

#include <cerrno>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "data/data_error.h"
#include "data/side_car.h"
#include "data/token_file.h"
#include "data/utf8.h"
#include "trainer/commands/preparation_checks.h"
#include "trainer/stop_switch.h"

namespace penstock::commands {
namespace {

using data::DataError;
using data::DocumentPiece;
using data::DocumentReader;
using data::DocumentSeparator;
using data::Fault;
using report::ProgressUnit;

// What becomes of an encoded text: its tag in the encoder.
constexpr uint64_t to_training = 0;
constexpr uint64_t to_validation = 1;
constexpr uint64_t begins_document = 2;
constexpr uint64_t ends_document = 4;

// Where only the number of validation documents is given.
constexpr double usual_draw = 0.05;

int32_t end_of_text_token(const data::Tokenizer& tokenizer, const DataPrepareOptions& options) {
  if (options.end_of_text.empty() && tokenizer.end_of_text()) return *tokenizer.end_of_text();
  const std::string wanted = options.end_of_text.empty() ? data::end_of_text_name : options.end_of_text;
  std::string known;
  for (const data::SpecialToken& token : tokenizer.vocabulary().special) {
    if (token.text == wanted) return token.id;
    known += (known.empty() ? "`" : ", `") + token.text + "`";
  }
  throw DataError(Fault{options.tokenizer,
                        {},
                        known.empty() ? "no special token" : "the special tokens " + known,
                        "`" + wanted + "` to end documents with",
                        "name the one to use with --end-of-text"});
}

// All that a preparation writes until it is finished.
void remove_partial_files(const std::string& prefix) {
  const std::string bin = prefix + ".bin";
  for (const std::string& path : {bin, prefix + ".idx", prefix + ".lengths", data::side_car_path(bin)}) {
    const std::string partial = path + ".partial";
    if (::unlink(partial.c_str()) != 0 && errno != ENOENT)
      throw data::write_error(partial, "remove it", errno);
  }
}

double draw_of(const DataPrepareOptions& options) {
  return options.validation_documents > 0 && options.validation_fraction <= 0 ? usual_draw
                                                                              : options.validation_fraction;
}

}  // namespace

Preparation::Preparation(const data::Tokenizer& tokenizer, const DataPrepareOptions& options)
    : options_(options),
      tokenizer_(tokenizer),
      end_of_text_(end_of_text_token(tokenizer, options)),
      inputs_(input_files(options.inputs)),
      total_(total_bytes(inputs_)),
      prefix_(data::token_file_prefix(options.output)),
      state_path_(preparation_path(prefix_)),
      separator_(options.separator.value_or(DocumentSeparator::file)),
      invalid_(options.invalid.value_or(data::InvalidText::refuse)),
      draw_(draw_of(options)) {
  check_options(options, inputs_);
  check_outputs(inputs_, prefix_);
  open_outputs();
  encoder_.emplace(tokenizer, data::OrderedEncoder::usual_threads(),
                   [this](std::span<const int32_t> tokens, uint64_t tag) { take(tokens, tag); });
}

// What the result depends on, apart from this program and the inputs.
nlohmann::json Preparation::request() const {
  return {{"json_lines", options_.json_lines},
          {"document_separator", static_cast<int>(separator_)},
          {"invalid", static_cast<int>(invalid_)},
          {"tokenizer", tokenizer_.fingerprint()},
          {"end_of_text", end_of_text_},
          {"validation_fraction", options_.validation_fraction},
          {"validation_documents", options_.validation_documents}};
}

void Preparation::open_outputs() {
  const std::string validation = prefix_ + "-validation";
  const int64_t vocabulary = tokenizer_.size();
  const std::string& made_with = tokenizer_.fingerprint();
  if (options_.restart) remove_preparation(state_path_);
  if (const auto state = load_preparation(state_path_)) {
    check_goes_on(*state, request(), inputs_, state_path_);
    training_.emplace(prefix_, vocabulary, made_with, state->training);
    training_->keep();
    if (state->validation) {
      validation_.emplace(validation, vocabulary, made_with, *state->validation);
      validation_->keep();
    }
    state_ = *state;
    goes_on_ = true;
    saved_ = true;
    return;
  }
  state_.request = request();
  state_.inputs = inputs_;
  training_.emplace(prefix_, vocabulary, made_with);
  if (draw_.fraction() > 0) {
    validation_.emplace(validation, vocabulary, made_with);
  } else if (options_.restart) {
    remove_partial_files(validation);  // what was left off had one
  }
}

bool Preparation::run() {
  try {
    if (!state_.complete) {
      for (uint64_t i = 0; i < state_.input; ++i) read_bytes_ += inputs_[i].bytes.value_or(0);
      report::ProgressBar bar({"preparing", "B", ProgressUnit::bytes, total_, state_.file_bytes});
      read_inputs(bar);
      if (stopped_) return false;
      bar.update(read_bytes_);
      bar.finish();
    }
    return finish();
  } catch (...) {
    if (saved_) {
      fmt::print(
          stderr,
          "penstock: note: what was done before is kept in {} and files beside it; the same command goes "
          "on from there\n",
          state_path_);
    }
    throw;
  }
}

void Preparation::read_inputs(report::ProgressBar& bar) {
  for (; state_.input < inputs_.size(); ++state_.input) {
    DocumentReader reader(inputs_[state_.input].path, separator_, options_.json_lines, invalid_);
    if (std::exchange(goes_on_, false)) {
      reader.go_on(state_.position);
    } else {
      state_.invalid = 0;
    }
    read_input(reader, bar);
    if (stopped_) return;
    read_bytes_ += reader.file_consumed();
    if (state_.invalid > 0) note_invalid(reader);
  }
  encoder_->finish();
}

void Preparation::read_input(DocumentReader& reader, report::ProgressBar& bar) {
  const std::optional<uint64_t> tail = validation_tail(reader);
  while (const auto piece = reader.next()) {
    if (!reader.is_json()) {
      count_invalid(*piece);
    } else if (piece->invalid && state_.invalid++ == 0) {
      state_.first_invalid = reader.position().line;
    }
    add_piece(*piece, tail);
    state_.file_bytes = read_bytes_ + reader.file_consumed();
    bar.update(state_.file_bytes);
    stopped_ = StopSwitch::signalled();
    if (total_ && (stopped_ || unsaved_bytes_ >= options_.save_every)) save(reader.position(), false);
    if (stopped_) return;
  }
}

// Only what is on disk may be said to be.
void Preparation::save(const data::DocumentPosition& position, bool complete) {
  encoder_->finish();
  state_.position = position;
  state_.complete = complete;
  state_.training = training_->commit();
  if (validation_) state_.validation = validation_->commit();
  save_preparation(state_path_, state_);
  training_->keep();
  if (validation_) validation_->keep();
  saved_ = true;
  unsaved_bytes_ = 0;
}

void Preparation::add_piece(const DocumentPiece& piece, std::optional<uint64_t> tail) {
  if (tail) {
    add_by_tail(piece, *tail);
    return;
  }
  add(piece.text, draws());
  if (piece.ends_document) end_document(draws());
}

bool Preparation::draws() const {
  const uint64_t most = options_.validation_documents;
  return draw_.is_validation(state_.documents) && (most == 0 || state_.validation_documents < most);
}

// Where `file` makes a document of the whole file, no document can be drawn: its last part is taken instead,
// from this byte on.
std::optional<uint64_t> Preparation::validation_tail(const DocumentReader& reader) const {
  if (!validation_ || separator_ != DocumentSeparator::file || reader.is_json()) return std::nullopt;
  if (options_.validation_documents > 0) {
    throw DataError(Fault{reader.path(),
                          {},
                          "a text file that is one document",
                          "documents to draw --validation-documents from",
                          "give --document-separator, or --validation-fraction alone"});
  }
  if (!reader.text_size()) {
    throw DataError(Fault{reader.path(),
                          {},
                          reader.file_size() ? "a packed file, the size of whose text is not known"
                                             : "a pipe, whose size is not known",
                          "a regular file to take the last part of for validation",
                          "unpack the text into a file first, or choose another --document-separator"});
  }
  const auto size = static_cast<double>(*reader.text_size());
  return static_cast<uint64_t>(size * (1 - options_.validation_fraction));
}

void Preparation::add_by_tail(const DocumentPiece& piece, uint64_t tail) {
  size_t split = 0;
  if (!state_.in_tail && piece.begin + piece.text.size() > tail) {
    split = place_to_split(piece.text, tail > piece.begin ? tail - piece.begin : 0);
    add(piece.text.substr(0, split), false);
    if (split < piece.text.size()) {
      end_document(false);
      state_.in_tail = true;
    }
  }
  add(piece.text.substr(split), state_.in_tail);
  if (piece.ends_document) {
    end_document(state_.in_tail);
    state_.in_tail = false;
  }
}

void Preparation::add(std::string_view text, bool validation) {
  if (text.empty()) return;
  encoder_->add(text,
                (validation ? to_validation : to_training) | (state_.document_open ? 0 : begins_document));
  state_.text_bytes += text.size();
  unsaved_bytes_ += text.size();
  state_.document_open = true;
}

void Preparation::end_document(bool validation) {
  if (!state_.document_open) return;  // an empty document is none
  encoder_->add({}, (validation ? to_validation : to_training) | ends_document);
  state_.document_open = false;
  ++state_.documents;
  if (validation) ++state_.validation_documents;
}

void Preparation::take(std::span<const int32_t> tokens, uint64_t tag) {
  data::TokenWriter& writer = (tag & to_validation) != 0 ? *validation_ : *training_;
  const auto begin = tokenizer_.begin_of_text();
  if ((tag & begins_document) != 0 && begin) writer.add({&*begin, 1});
  writer.add(tokens);
  if ((tag & ends_document) == 0) return;
  writer.add({&end_of_text_, 1});
  writer.end_document();
}

void Preparation::count_invalid(const DocumentPiece& piece) {
  for (size_t at = data::valid_utf8_prefix(piece.text); at < piece.text.size();) {
    if (state_.invalid == 0) state_.first_invalid = piece.begin + at;
    const size_t bad = data::invalid_utf8_prefix(piece.text.substr(at));
    state_.invalid += bad;
    at += bad + data::valid_utf8_prefix(piece.text.substr(at + bad));
  }
}

void Preparation::note_invalid(const DocumentReader& reader) {
  state_.notes.push_back(
      reader.is_json()
          ? fmt::format("{}: {} documents have text that is not Unicode, the first in line {}; {}",
                        reader.path(), state_.invalid, state_.first_invalid,
                        invalid_ == data::InvalidText::skip ? "they are left out" : "U+FFFD stands for it")
          : fmt::format("{}: {} bytes are not UTF-8, the first at byte {}; they are kept as they are",
                        reader.path(), state_.invalid, state_.first_invalid));
}

void Preparation::refuse_nothing() const {
  if (training_->facts().tokens == 0) {
    throw DataError(Fault{
        fmt::format("{}", fmt::join(options_.inputs, ", ")),
        {},
        state_.documents == 0 ? "no text" : "no text outside the validation part",
        "some text",
        state_.documents == 0 ? "check the files" : "give more text or a smaller --validation-fraction"});
  }
  if (validation_ && validation_->facts().tokens == 0) {
    throw DataError(
        Fault{fmt::format("{}", fmt::join(options_.inputs, ", ")),
              {},
              fmt::format("{} documents, of which none fell to validation", state_.documents),
              fmt::format("a part of {} of them", draw_.fraction()),
              "give a larger --validation-fraction, more documents, or --document-separator file"});
  }
}

bool Preparation::finish() {
  for (const std::string& note : state_.notes) fmt::print(stderr, "penstock: note: {}\n", note);
  refuse_nothing();
  // From here on the files take their names one after the other: whoever goes on must not read texts again.
  if (total_ && !state_.complete) save({}, true);
  training_->finish();
  if (validation_) validation_->finish();
  if (saved_) remove_preparation(state_path_);
  saved_ = false;
  describe();
  return true;
}

void Preparation::describe() const {
  if (state_.validation_documents < options_.validation_documents) {
    fmt::print(
        stderr,
        "penstock: note: {} documents were drawn for validation, fewer than {}: one of {:.0f} in a row "
        "(--validation-fraction)\n",
        state_.validation_documents, options_.validation_documents, 1 / draw_.fraction());
  }
  uint64_t tokens = 0;
  const auto show = [&](const data::SideCar& facts, const std::string& prefix) {
    tokens += facts.tokens;
    fmt::print("{}.idx/.bin: {}, {}, {}\n", prefix,
               report::format_amount(facts.tokens, ProgressUnit::count, "tokens"),
               report::format_amount(facts.documents, ProgressUnit::count,
                                     facts.documents == 1 ? "document" : "documents"),
               data::token_type_name(facts.type));
  };
  show(training_->facts(), prefix_);
  if (validation_) show(validation_->facts(), prefix_ + "-validation");
  fmt::print("{} of text, {:.2f} bytes a token\n",
             report::format_amount(state_.text_bytes, ProgressUnit::bytes, "B"),
             static_cast<double>(state_.text_bytes) / static_cast<double>(tokens));
}

}  // namespace penstock::commands
