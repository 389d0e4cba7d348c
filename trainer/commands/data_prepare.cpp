#include "trainer/commands/data_prepare.h"

#include <algorithm>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "data/data_error.h"
#include "data/ordered_encoder.h"
#include "data/token_file.h"
#include "data/token_writer.h"
#include "data/tokenizer_json.h"
#include "data/utf8.h"
#include "trainer/commands/document_split.h"
#include "trainer/commands/input_size.h"
#include "trainer/commands/number_check.h"
#include "trainer/commands/run_command.h"
#include "trainer/report/progress_bar.h"

namespace penstock::commands {
namespace {

using data::DataError;
using data::DocumentPiece;
using data::DocumentReader;
using data::DocumentSeparator;
using data::Fault;
using report::ProgressUnit;

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

DocumentSeparator separator_named(const std::string& name) {
  if (name == "line") return DocumentSeparator::line;
  if (name == "blank-line") return DocumentSeparator::blank_line;
  return name == "end-of-text" ? DocumentSeparator::end_of_text : DocumentSeparator::file;
}

// Takes pieces of documents in order and writes their tokens to the training or the validation file.
class Preparation {
 public:
  Preparation(const data::Tokenizer& tokenizer, const DataPrepareOptions& options)
      : options_(options),
        tokenizer_(tokenizer),
        end_of_text_(end_of_text_token(tokenizer, options)),
        draw_(options.validation_fraction),
        training_(data::token_file_prefix(options.output), tokenizer.size(), tokenizer.fingerprint()),
        encoder_(tokenizer, data::OrderedEncoder::usual_threads(),
                 [this](std::span<const int32_t> tokens, uint64_t tag) { take(tokens, tag); }) {
    if (options.validation_fraction > 0) {
      validation_.emplace(data::token_file_prefix(options.output) + "-validation", tokenizer.size(),
                          tokenizer.fingerprint());
    }
  }

  void run() {
    report::ProgressBar bar({"preparing", "B", ProgressUnit::bytes, total_input_bytes(options_.inputs)});
    uint64_t before = 0;
    for (const std::string& input : options_.inputs) {
      DocumentReader reader(input, options_.separator);
      const std::optional<uint64_t> tail = validation_tail(reader);
      invalid_bytes_ = 0;
      while (const auto piece = reader.next()) {
        if (!reader.is_json()) count_invalid(*piece);
        if (tail) {
          add_by_tail(*piece, *tail);
        } else {
          add(piece->text, draw_.is_validation(documents_));
          if (piece->ends_document) end_document(draw_.is_validation(documents_));
        }
        bar.update(before + reader.consumed());
      }
      before += reader.consumed();
      if (invalid_bytes_ > 0) {
        notes_.push_back(
            fmt::format("{}: {} bytes are not UTF-8, the first at byte {}; they are kept as they are",
                        reader.path(), invalid_bytes_, first_invalid_));
      }
    }
    encoder_.finish();
    bar.update(before);
    bar.finish();
    finish();
  }

 private:
  // Where `file` makes a document of the whole file, no document can be drawn: its last part is taken
  // instead, from this byte on.
  std::optional<uint64_t> validation_tail(const DocumentReader& reader) const {
    if (!validation_ || options_.separator != DocumentSeparator::file || reader.is_json())
      return std::nullopt;
    if (!reader.text_size()) {
      throw DataError(Fault{reader.path(),
                            {},
                            "a pipe, whose size is not known",
                            "a regular file to take the last part of for validation",
                            "write the text into a file first, or choose another --document-separator"});
    }
    const auto size = static_cast<double>(*reader.text_size());
    return static_cast<uint64_t>(size * (1 - options_.validation_fraction));
  }

  void add_by_tail(const DocumentPiece& piece, uint64_t tail) {
    size_t split = 0;
    if (!in_tail_ && piece.begin + piece.text.size() > tail) {
      split = place_to_split(piece.text, tail > piece.begin ? tail - piece.begin : 0);
      add(piece.text.substr(0, split), false);
      if (split < piece.text.size()) {
        end_document(false);
        in_tail_ = true;
      }
    }
    add(piece.text.substr(split), in_tail_);
    if (piece.ends_document) {
      end_document(in_tail_);
      in_tail_ = false;
    }
  }

  // What becomes of an encoded text: its tag in the encoder.
  static constexpr uint64_t to_training = 0;
  static constexpr uint64_t to_validation = 1;
  static constexpr uint64_t begins_document = 2;
  static constexpr uint64_t ends_document = 4;

  void add(std::string_view text, bool validation) {
    if (text.empty()) return;
    encoder_.add(text, (validation ? to_validation : to_training) | (document_open_ ? 0 : begins_document));
    text_bytes_ += text.size();
    document_open_ = true;
  }

  void end_document(bool validation) {
    if (!document_open_) return;  // an empty document is none
    encoder_.add({}, (validation ? to_validation : to_training) | ends_document);
    document_open_ = false;
    ++documents_;
  }

  void take(std::span<const int32_t> tokens, uint64_t tag) {
    data::TokenWriter& writer = (tag & to_validation) != 0 ? *validation_ : training_;
    const auto begin = tokenizer_.begin_of_text();
    if ((tag & begins_document) != 0 && begin) writer.add({&*begin, 1});
    writer.add(tokens);
    if ((tag & ends_document) == 0) return;
    writer.add({&end_of_text_, 1});
    writer.end_document();
  }

  void count_invalid(const DocumentPiece& piece) {
    for (size_t at = data::valid_utf8_prefix(piece.text); at < piece.text.size();) {
      if (invalid_bytes_ == 0) first_invalid_ = piece.begin + at;
      const size_t bad = data::invalid_utf8_prefix(piece.text.substr(at));
      invalid_bytes_ += bad;
      at += bad + data::valid_utf8_prefix(piece.text.substr(at + bad));
    }
  }

  void finish() {
    if (training_.facts().tokens == 0) {
      throw DataError(
          Fault{fmt::format("{}", fmt::join(options_.inputs, ", ")),
                {},
                documents_ == 0 ? "no text" : "no text outside the validation part",
                "some text",
                documents_ == 0 ? "check the files" : "give more text or a smaller --validation-fraction"});
    }
    if (validation_ && validation_->facts().tokens == 0) {
      throw DataError(
          Fault{fmt::format("{}", fmt::join(options_.inputs, ", ")),
                {},
                fmt::format("{} documents, of which none fell to validation", documents_),
                fmt::format("a part of {} of them", options_.validation_fraction),
                "give a larger --validation-fraction, more documents, or --document-separator file"});
    }
    training_.finish();
    if (validation_) validation_->finish();
    for (const std::string& note : notes_) fmt::print(stderr, "penstock: note: {}\n", note);
    describe(training_.facts(), data::token_file_prefix(options_.output));
    if (validation_) describe(validation_->facts(), data::token_file_prefix(options_.output) + "-validation");
    fmt::print("{} of text, {:.2f} bytes a token\n",
               report::format_amount(text_bytes_, ProgressUnit::bytes, "B"),
               static_cast<double>(text_bytes_) / static_cast<double>(all_tokens()));
  }

  uint64_t all_tokens() const {
    return training_.facts().tokens + (validation_ ? validation_->facts().tokens : 0);
  }

  static void describe(const data::SideCar& facts, const std::string& prefix) {
    fmt::print("{}.idx/.bin: {}, {}, {}\n", prefix,
               report::format_amount(facts.tokens, ProgressUnit::count, "tokens"),
               report::format_amount(facts.documents, ProgressUnit::count,
                                     facts.documents == 1 ? "document" : "documents"),
               data::token_type_name(facts.type));
  }

  const DataPrepareOptions& options_;
  const data::Tokenizer& tokenizer_;
  int32_t end_of_text_;
  DocumentDraw draw_;
  data::TokenWriter training_;
  std::optional<data::TokenWriter> validation_;
  std::vector<std::string> notes_;
  uint64_t documents_ = 0;
  uint64_t text_bytes_ = 0;
  uint64_t invalid_bytes_ = 0;
  uint64_t first_invalid_ = 0;
  bool document_open_ = false;
  bool in_tail_ = false;
  data::OrderedEncoder encoder_;  // the last: its threads end before what take() uses
};

}  // namespace

void run_data_prepare(const DataPrepareOptions& options) {
  const data::Tokenizer tokenizer = data::load_tokenizer(options.tokenizer);
  Preparation(tokenizer, options).run();
}

CLI::App* add_data_prepare(CLI::App& parent, int& exit_code) {
  auto options = std::make_shared<DataPrepareOptions>();
  CLI::App* command = parent.add_subcommand("prepare", "Turn text into token files for training");
  command
      ->add_option("--input", options->inputs,
                   "text files, UTF-8; .jsonl: a document as \"text\" each line; -: standard input")
      ->required()
      ->type_name("FILE...");
  command->add_option("--tokenizer", options->tokenizer, "tokenizer.json")->required()->type_name("FILE");
  command->add_option("--output", options->output, "writes PREFIX.idx, PREFIX.bin and PREFIX.bin.meta.toml")
      ->required()
      ->type_name("PREFIX");
  const auto separator = std::make_shared<std::string>("file");
  command
      ->add_option(
          "--document-separator", *separator,
          "what ends a document of a text file: its end, a line, a blank line, or the text <|endoftext|>")
      ->check(CLI::IsMember({"file", "line", "blank-line", "end-of-text"}))
      ->capture_default_str()
      ->type_name("KIND");
  command
      ->add_option(
          "--validation-fraction", options->validation_fraction,
          "this part goes to PREFIX-validation: drawn documents, or with `file` the end of each file")
      ->check(real_number(0.0, 0.99))
      ->type_name("F");
  command
      ->add_option("--end-of-text", options->end_of_text,
                   "the special token put after each document; without it <|endoftext|> or <|end_of_text|>")
      ->type_name("TOKEN");
  command->footer(
      "Examples:\n"
      "  penstock data prepare --input book.txt --tokenizer tokenizer.json --output book "
      "--validation-fraction 0.05\n"
      "  penstock data prepare --input web-*.jsonl --tokenizer tokenizer.json --output web");
  command->callback([options, separator, &exit_code] {
    options->separator = separator_named(*separator);
    exit_code = run_command([&] {
      run_data_prepare(*options);
      return 0;
    });
  });
  return command;
}

}  // namespace penstock::commands
