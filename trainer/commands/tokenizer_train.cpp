#include "trainer/commands/tokenizer_train.h"

#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "data/bpe_trainer.h"
#include "data/data_error.h"
#include "data/document_reader.h"
#include "data/file_writer.h"
#include "data/tokenizer_json.h"
#include "trainer/commands/input_files.h"
#include "trainer/commands/number_check.h"
#include "trainer/commands/run_command.h"
#include "trainer/report/progress_bar.h"

namespace penstock::commands {
namespace {

using report::ProgressUnit;

constexpr int64_t largest_vocabulary = int64_t{1} << 24;

void count_words(const TokenizerTrainOptions& options, data::BpeTrainer& trainer) {
  const std::vector<InputFile> inputs = input_files(options.inputs);
  report::ProgressBar bar({"counting words", "B", ProgressUnit::bytes, total_bytes(inputs)});
  uint64_t before = 0;
  for (const InputFile& input : inputs) {
    data::DocumentReader reader(input.path, data::DocumentSeparator::file, options.json_lines);
    while (const auto piece = reader.next()) {
      trainer.add_text(piece->text);
      bar.update(before + reader.file_consumed());
    }
    before += reader.file_consumed();
  }
  bar.update(before);
  bar.finish();
}

}  // namespace

void run_tokenizer_train(const TokenizerTrainOptions& options) {
  data::BpeOptions bpe;
  bpe.vocabulary = options.vocabulary;
  bpe.min_frequency = options.min_frequency;
  data::BpeTrainer trainer(bpe);
  data::FileWriter file(options.output);  // opened before the work, so that a wrong name costs nothing
  count_words(options, trainer);
  if (trainer.bytes_seen() == 0) {
    throw data::DataError(data::Fault{fmt::format("{}", fmt::join(options.inputs, ", ")),
                                      {},
                                      "no text",
                                      "some text to learn from",
                                      "check the files"});
  }
  data::Vocabulary vocabulary;
  {
    report::ProgressBar bar(
        {"merging pairs", "tokens", ProgressUnit::count, static_cast<uint64_t>(options.vocabulary)});
    vocabulary = trainer.train([&](int64_t made, int64_t) { bar.update(static_cast<uint64_t>(made)); });
    bar.finish();
  }
  const auto made = static_cast<int64_t>(vocabulary.tokens.size());
  if (made < options.vocabulary) {
    fmt::print(
        stderr,
        "penstock: note: {} tokens instead of {}: no further pair occurs {} times; more text gives more\n",
        made, options.vocabulary, options.min_frequency);
  }
  file.write(data::tokenizer_json(data::Tokenizer(std::move(vocabulary))));
  file.commit();
  fmt::print("{}: {} tokens from {}\n", options.output, made,
             report::format_amount(trainer.bytes_seen(), ProgressUnit::bytes, "B"));
}

CLI::App* add_tokenizer_train(CLI::App& parent, int& exit_code) {
  auto options = std::make_shared<TokenizerTrainOptions>();
  CLI::App* command = parent.add_subcommand("train", "Train a byte-level BPE tokenizer on text");
  command
      ->add_option(
          "--input", options->inputs,
          "text files, UTF-8; .jsonl: a \"text\" each line; packed by gzip or zstd too; -: standard input")
      ->required()
      ->type_name("FILE...");
  command->add_flag("--json-lines", options->json_lines, "inputs are JSON lines, whatever their names");
  command
      ->add_option("--vocab-size", options->vocabulary,
                   "tokens in all: <|endoftext|>, the 256 bytes, and merges")
      ->required()
      ->check(whole_number(257, largest_vocabulary))
      ->type_name("N");
  command->add_option("--min-frequency", options->min_frequency, "a rarer pair is not merged")
      ->check(whole_number(1, int64_t{1} << 40))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--output", options->output, "where to write (Hugging Face tokenizer.json)")
      ->required()
      ->type_name("FILE");
  command->footer(
      "Examples:\n"
      "  penstock tokenizer train --input book.txt --vocab-size 4096 --output tokenizer.json\n"
      "  penstock tokenizer train --input 'books/*.txt.gz' --vocab-size 32768 --output tokenizer.json");
  command->callback([options, &exit_code] {
    exit_code = run_command([&] {
      run_tokenizer_train(*options);
      return 0;
    });
  });
  return command;
}

}  // namespace penstock::commands
