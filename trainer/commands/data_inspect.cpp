#include "trainer/commands/data_inspect.h"

#include <algorithm>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "data/data_error.h"
#include "data/file_writer.h"
#include "data/token_file.h"
#include "data/tokenizer_json.h"
#include "data/utf8.h"
#include "trainer/commands/foreign_options.h"
#include "trainer/commands/number_check.h"
#include "trainer/commands/run_command.h"
#include "trainer/report/progress_bar.h"

namespace penstock::commands {
namespace {

using data::DataError;
using data::Fault;
using report::format_amount;
using report::ProgressUnit;

// Bytes that a terminal might obey or cannot show become "?" or U+FFFD.
std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = data::utf8_character(text);
    const bool control = length == 1 && (static_cast<uint8_t>(text[0]) < 0x20 || text[0] == 0x7F) &&
                         text[0] != '\n' && text[0] != '\t';
    if (length == 0) {
      data::append_utf8(0xFFFD, out);
    } else if (control) {
      out += '?';
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

std::vector<int32_t> sample_tokens(const data::TokenFile& file, uint64_t sample, int64_t length) {
  const auto wanted = static_cast<uint64_t>(length);
  const uint64_t samples = (file.tokens() + wanted - 1) / wanted;
  if (sample >= samples) {
    throw DataError(Fault{file.bin_path(),
                          {},
                          fmt::format("sample {}", sample),
                          samples == 0 ? "no sample, as there are no tokens"
                                       : fmt::format("0 to {} (of {} tokens each)", samples - 1, length),
                          "give another --sample"});
  }
  std::vector<int32_t> tokens(std::min(wanted, file.tokens() - sample * wanted));
  file.read(sample * wanted, tokens, file.facts().largest_token + 1);
  return tokens;
}

const char* tokenizer_verdict(const data::SideCar& facts, const data::Tokenizer& tokenizer) {
  if (facts.tokenizer.empty()) return "not recorded in the side-car";
  return facts.tokenizer == tokenizer.fingerprint() ? "the one that made the file"
                                                    : "ANOTHER than the one that made "
                                                      "the file";
}

nlohmann::ordered_json as_json(const data::TokenFile& file) {
  const data::SideCar& facts = file.facts();
  return {{"schema", 1},
          {"prefix", file.prefix()},
          {"dtype", data::token_type_name(facts.type)},
          {"tokens", facts.tokens},
          {"documents", facts.documents},
          {"sequences", file.index().sequences()},
          {"vocabulary", facts.vocabulary},
          {"tokenizer", facts.tokenizer},
          {"largest_token", facts.largest_token},
          {"side_car", file.has_side_car()},
          {"content", data::content_fingerprint(facts)}};
}

void print_facts(const data::TokenFile& file) {
  const data::SideCar& facts = file.facts();
  const auto count = [](uint64_t number) { return format_amount(number, ProgressUnit::count, ""); };
  fmt::print("{}.idx/.bin\n", file.prefix());
  fmt::print("  tokens         {} ({})\n", count(facts.tokens), data::token_type_name(facts.type));
  fmt::print("  documents      {} (sequences {})", count(facts.documents), count(file.index().sequences()));
  if (facts.documents > 0) {
    fmt::print(", {:.1f} tokens each on average",
               static_cast<double>(facts.tokens) / static_cast<double>(facts.documents));
  }
  fmt::print("\n  largest token  {}\n", facts.largest_token);
  fmt::print("  vocabulary     {}\n",
             facts.vocabulary > 0 ? count(static_cast<uint64_t>(facts.vocabulary)) : "unknown");
  fmt::print("  content        {}, {}\n", data::content_fingerprint(facts),
             file.has_side_car() ? "equal to the side-car's hashes"
                                 : "no side-car to compare with (--write-side-car makes one)");
}

}  // namespace

void run_data_inspect(const DataInspectOptions& options) {
  const data::TokenFile file(options.prefix);
  // Whether it can be written is known before the file is read through.
  if (options.write_side_car && !file.has_side_car()) data::FileWriter(data::side_car_path(file.bin_path()));
  if (file.has_side_car()) file.verify();
  std::optional<data::Tokenizer> tokenizer;
  if (!options.tokenizer.empty()) {
    tokenizer.emplace(data::load_tokenizer(options.tokenizer));
    file.require_vocabulary(tokenizer->size());
  }
  std::vector<int32_t> tokens;
  if (options.sample) tokens = sample_tokens(file, *options.sample, options.length);

  if (options.json) {
    nlohmann::ordered_json object = as_json(file);
    if (tokenizer) object["tokenizer_matches"] = file.facts().tokenizer == tokenizer->fingerprint();
    if (options.sample) {
      object["sample"] = {{"index", *options.sample}, {"tokens", tokens}};
      if (tokenizer) object["sample"]["text"] = tokenizer->decode(tokens);
    }
    fmt::print("{}\n", object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    print_facts(file);
    if (tokenizer) fmt::print("  tokenizer      {}\n", tokenizer_verdict(file.facts(), *tokenizer));
    if (options.sample) {
      fmt::print("  sample {} of {} tokens: {}\n", *options.sample, tokens.size(), fmt::join(tokens, " "));
      if (tokenizer) fmt::print("{}\n", printable(tokenizer->decode(tokens)));
    }
  }
  if (options.write_side_car && !file.has_side_car()) {
    data::SideCar facts = file.facts();
    if (tokenizer) facts.vocabulary = tokenizer->size();
    data::write_side_car(file.bin_path(), facts);
  }
}

CLI::App* add_data_inspect(CLI::App& parent, int& exit_code) {
  auto options = std::make_shared<DataInspectOptions>();
  CLI::App* command = parent.add_subcommand("inspect", "Check token files and show what is in them");
  command->add_option("prefix", options->prefix, "the token files' path without .idx or .bin")
      ->required()
      ->type_name("PREFIX");
  command->add_option("--tokenizer", options->tokenizer, "tokenizer.json, to compare and to show text")
      ->type_name("FILE");
  command->add_option("--sample", options->sample, "show the K-th piece of --length tokens, from 0")
      ->check(whole_number(0, int64_t{1} << 62))
      ->type_name("K");
  command->add_option("--length", options->length, "tokens of a sample")
      ->check(whole_number(1, int64_t{1} << 24))
      ->capture_default_str()
      ->type_name("T");
  command->add_flag("--json", options->json, "one JSON object on standard output");
  command->add_flag("--write-side-car", options->write_side_car,
                    "write PREFIX.bin.meta.toml where it is missing (files of other tools)");
  command->footer(
      "Examples:\n"
      "  penstock data inspect book\n"
      "  penstock data inspect book --tokenizer tokenizer.json --sample 0");
  command->parse_complete_callback([options, command] {
    if (!options->sample)
      refuse_given(*command, "it is the length of a sample", {{"--length", "add --sample K"}});
  });
  command->callback([options, &exit_code] {
    exit_code = run_command([&] {
      run_data_inspect(*options);
      return 0;
    });
  });
  return command;
}

}  // namespace penstock::commands
