#include "trainer/commands/data_prepare.h"

#include <memory>
#include <optional>

#include <fmt/format.h>

#include "data/token_file.h"
#include "data/tokenizer_json.h"
#include "trainer/commands/byte_size.h"
#include "trainer/commands/number_check.h"
#include "trainer/commands/preparation.h"
#include "trainer/commands/run_command.h"
#include "trainer/stop_switch.h"

namespace penstock::commands {
namespace {

using data::DocumentSeparator;

DocumentSeparator separator_named(const std::string& name) {
  if (name == "line") return DocumentSeparator::line;
  if (name == "blank-line") return DocumentSeparator::blank_line;
  return name == "end-of-text" ? DocumentSeparator::end_of_text : DocumentSeparator::file;
}

data::InvalidText invalid_named(const std::string& name) {
  if (name == "replace") return data::InvalidText::replace;
  return name == "skip" ? data::InvalidText::skip : data::InvalidText::refuse;
}

}  // namespace

ExitCode run_data_prepare(const DataPrepareOptions& options) {
  const data::Tokenizer tokenizer = data::load_tokenizer(options.tokenizer);
  const StopSwitch stop({}, std::nullopt,
                        {"penstock: asked to stop: what is done is being saved\n", "", false});
  Preparation preparation(tokenizer, options);
  if (preparation.run()) return ExitCode::finished;
  if (!preparation.can_go_on()) {
    fmt::print(stderr,
               "penstock: stopped; an input is a pipe, which cannot be read again: nothing is kept\n");
    return ExitCode::interrupted;
  }
  fmt::print(stderr, "penstock: stopped; the same command goes on from here ({} says how far it is)\n",
             preparation_path(data::token_file_prefix(options.output)));
  return ExitCode::stopped;
}

CLI::App* add_data_prepare(CLI::App& parent, int& exit_code) {
  auto options = std::make_shared<DataPrepareOptions>();
  CLI::App* command = parent.add_subcommand("prepare", "Turn text into token files for training");
  command
      ->add_option(
          "--input", options->inputs,
          "text files, UTF-8; .jsonl: a document as \"text\" each line; packed by gzip or zstd too; a "
          "quoted pattern; -: standard input")
      ->required()
      ->type_name("FILE...");
  command->add_flag("--json-lines", options->json_lines, "inputs are JSON lines, whatever their names");
  command->add_option("--tokenizer", options->tokenizer, "tokenizer.json")->required()->type_name("FILE");
  command->add_option("--output", options->output, "writes PREFIX.idx, PREFIX.bin and PREFIX.bin.meta.toml")
      ->required()
      ->type_name("PREFIX");
  const auto separator = std::make_shared<std::string>("file");
  const auto* separator_option =
      command
          ->add_option(
              "--document-separator", *separator,
              "what ends a document of a text file: its end, a line, a blank line, or the text <|endoftext|>")
          ->check(CLI::IsMember({"file", "line", "blank-line", "end-of-text"}))
          ->capture_default_str()
          ->type_name("KIND");
  const auto invalid = std::make_shared<std::string>("refuse");
  const auto* invalid_option =
      command
          ->add_option(
              "--invalid", *invalid,
              "what becomes of a document of JSON lines whose text is not Unicode (half of a surrogate "
              "pair, bytes that are not UTF-8): the preparation stops, U+FFFD stands for it, or the "
              "document is left out")
          ->check(CLI::IsMember({"refuse", "replace", "skip"}))
          ->capture_default_str()
          ->type_name("HOW");
  command
      ->add_option(
          "--validation-fraction", options->validation_fraction,
          "this part goes to PREFIX-validation: drawn documents, or with `file` the end of each file")
      ->check(real_number(0.0, 0.99))
      ->type_name("F");
  command
      ->add_option("--validation-documents", options->validation_documents,
                   "at most so many documents are drawn, of 20 in a row one if no fraction is given")
      ->check(whole_number(1, int64_t{1} << 40))
      ->type_name("N");
  command
      ->add_option("--end-of-text", options->end_of_text,
                   "the special token put after each document; without it <|endoftext|> or <|end_of_text|>")
      ->type_name("TOKEN");
  const auto save_every = std::make_shared<std::string>("256MiB");
  command
      ->add_option("--save-every", *save_every, "text between two states that the same command goes on from")
      ->check(is_byte_size())
      ->capture_default_str()
      ->type_name("SIZE");
  command->add_flag("--restart", options->restart, "begin again, whatever was left off");
  command->footer(
      "Examples:\n"
      "  penstock data prepare --input book.txt --tokenizer tokenizer.json --output book "
      "--validation-fraction 0.05\n"
      "  penstock data prepare --input 'web-*.jsonl.zst' --tokenizer tokenizer.json --output web "
      "--validation-documents 10000");
  command->callback([options, separator, separator_option, invalid, invalid_option, save_every, &exit_code] {
    if (separator_option->count() > 0) options->separator = separator_named(*separator);
    if (invalid_option->count() > 0) options->invalid = invalid_named(*invalid);
    options->save_every = *byte_size(*save_every);
    exit_code = run_command([&] { return static_cast<int>(run_data_prepare(*options)); });
  });
  return command;
}

}  // namespace penstock::commands
