#include "trainer/commands/data_inspect.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "data/data_error.h"
#include "data/file_writer.h"
#include "data/sampler.h"
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

// A sample as training reads it.
struct Sample {
  data::SamplePlace place;
  std::vector<int32_t> tokens;  // T + 1: the inputs, and the last one's target
  std::vector<int32_t> starts;  // places among the inputs at which a document begins
};

Sample read_sample(const data::Sampler& sampler, const DataInspectOptions& options) {
  const uint64_t count = sampler.samples_per_epoch();
  if (*options.sample >= count) {
    throw DataError(Fault{sampler.files().front()->bin_path(),
                          {},
                          fmt::format("sample {}", *options.sample),
                          fmt::format("0 to {} (of {} tokens each)", count - 1, options.length),
                          "give another --sample, or another --epoch for the next round"});
  }
  const uint64_t index = options.epoch * count + *options.sample;
  const auto length = static_cast<size_t>(options.length);
  Sample sample;
  sample.place = sampler.place(index);
  sample.tokens.resize(length + 1);
  sample.starts.resize(length);
  std::vector<int32_t> targets(length);
  std::vector<int32_t> positions(length);
  const std::span<int32_t> inputs(sample.tokens.data(), length);
  sample.starts.resize(sampler.read(index, {inputs, targets, positions, sample.starts}));
  sample.tokens.back() = targets.back();
  return sample;
}

const char* tokenizer_verdict(const data::SideCar& facts, const data::Tokenizer& tokenizer) {
  if (facts.tokenizer.empty()) return "not recorded in the side-car";
  return facts.tokenizer == tokenizer.fingerprint() ? "the one that made the file"
                                                    : "ANOTHER than the one that made "
                                                      "the file";
}

nlohmann::ordered_json as_json(const data::TokenFile& file) {
  const data::SideCar& facts = file.facts();
  nlohmann::ordered_json object{{"schema", 1},
                                {"prefix", file.prefix()},
                                {"format", data::token_format_name(file.format())},
                                {"dtype", data::token_type_name(facts.type)},
                                {"tokens", facts.tokens},
                                {"documents", facts.documents},
                                {"documents_known", file.knows_documents()},
                                {"sequences", nullptr},
                                {"document_token", nullptr},
                                {"vocabulary", facts.vocabulary},
                                {"tokenizer", facts.tokenizer},
                                {"largest_token", nullptr},
                                {"side_car", file.has_side_car()},
                                {"content", data::content_fingerprint(facts)}};
  if (facts.tokens > 0) object["largest_token"] = facts.largest_token;
  if (file.index()) object["sequences"] = file.index()->sequences();
  if (facts.mark) {
    object["document_token"] = facts.mark->token;
    object["document_token_place"] = facts.mark->in_front ? "front" : "end";
  }
  return object;
}

std::string documents_shown(const data::TokenFile& file) {
  const data::SideCar& facts = file.facts();
  const auto count = [](uint64_t number) { return format_amount(number, ProgressUnit::count, ""); };
  if (!file.knows_documents()) return "unknown: nothing says where they begin (--document-token)";
  std::string text = count(facts.documents);
  if (file.index()) text += fmt::format(" (sequences {})", count(file.index()->sequences()));
  if (file.lacks_marks()) {
    text += fmt::format(" (token {}, which marks them, does not occur)", facts.mark->token);
  } else if (facts.mark) {
    text += fmt::format(" (token {} at their {})", facts.mark->token, facts.mark->in_front ? "front" : "end");
  }
  if (facts.documents > 0) {
    text += fmt::format(", {:.1f} tokens each on average",
                        static_cast<double>(facts.tokens) / static_cast<double>(facts.documents));
  }
  return text;
}

void print_facts(const data::TokenFile& file, bool writes_side_car) {
  const data::SideCar& facts = file.facts();
  const auto count = [](uint64_t number) { return format_amount(number, ProgressUnit::count, ""); };
  fmt::print("{}\n", file.index() ? file.prefix() + ".idx/.bin" : file.bin_path());
  fmt::print("  format         {}\n", data::token_format_name(file.format()));
  fmt::print("  tokens         {} ({})\n", count(facts.tokens), data::token_type_name(facts.type));
  fmt::print("  documents      {}\n", documents_shown(file));
  fmt::print("  largest token  {}\n",
             facts.tokens > 0 ? fmt::format("{}", facts.largest_token) : "none, as it has no tokens");
  fmt::print("  vocabulary     {}\n",
             facts.vocabulary > 0 ? count(static_cast<uint64_t>(facts.vocabulary)) : "unknown");
  fmt::print("  content        {}, {}\n", data::content_fingerprint(facts),
             file.has_side_car() ? "equal to the side-car's hashes"
             : writes_side_car   ? "the side-car with its hashes is written"
                                 : "no side-car to compare with (--write-side-car makes one)");
}

// Calls visit(first, end) for each run of the sample's tokens that belongs to one document.
template <class Visit>
void each_document(const Sample& sample, Visit&& visit) {
  size_t first = 0;
  for (const int32_t start : sample.starts) {
    if (start > 0) visit(first, static_cast<size_t>(start));
    first = static_cast<size_t>(start);
  }
  visit(first, sample.tokens.size());
}

void print_sample(const DataInspectOptions& options, const Sample& sample, const data::Tokenizer* tokenizer) {
  const std::string order = options.seed ? fmt::format("epoch {} with seed {}", options.epoch, *options.seed)
                                         : std::string("the file's order");
  fmt::print("  sample {} of {}: tokens {} to {}, documents begin at [{}]\n", *options.sample, order,
             sample.place.first_token, sample.place.first_token + sample.tokens.size() - 1,
             fmt::join(sample.starts, ", "));
  each_document(sample, [&](size_t first, size_t end) {
    const auto part = std::span(sample.tokens).subspan(first, end - first);
    const bool begins = std::find(sample.starts.begin(), sample.starts.end(), static_cast<int32_t>(first)) !=
                        sample.starts.end();
    fmt::print("--- {} {}: {}\n", begins ? "a document begins at" : "goes on at", first,
               fmt::join(part, " "));
    if (tokenizer != nullptr) fmt::print("{}\n", printable(tokenizer->decode(part)));
  });
}

std::optional<data::HeaderlessFile> headerless_file(const DataInspectOptions& options,
                                                    const std::optional<data::Tokenizer>& tokenizer) {
  if (options.headerless.empty()) return std::nullopt;
  data::HeaderlessFile file;
  file.type = options.headerless == data::token_type_name(data::TokenType::uint32) ? data::TokenType::uint32
                                                                                   : data::TokenType::uint16;
  if (options.document_token) {
    file.mark = data::DocumentMark{*options.document_token, false};
  } else if (tokenizer && tokenizer->end_of_text()) {
    file.mark = data::DocumentMark{*tokenizer->end_of_text(), false};
  }
  return file;
}

}  // namespace

void run_data_inspect(const DataInspectOptions& options) {
  std::optional<data::Tokenizer> tokenizer;
  if (!options.tokenizer.empty()) tokenizer.emplace(data::load_tokenizer(options.tokenizer));
  std::vector<std::unique_ptr<data::TokenFile>> files;
  files.push_back(std::make_unique<data::TokenFile>(options.prefix, headerless_file(options, tokenizer)));
  const data::TokenFile& file = *files.front();
  if (!options.headerless.empty() && file.format() != data::TokenFormat::headerless) {
    throw DataError(Fault{file.bin_path(),
                          {},
                          fmt::format("a file of the format {}", data::token_format_name(file.format())),
                          "one without a header, as --headerless says",
                          "leave --headerless out"});
  }
  if (!options.headerless.empty() && file.has_side_car()) {
    throw DataError(Fault{data::side_car_path(file.bin_path()),
                          {},
                          "a description of the file",
                          "none, as --headerless describes it",
                          "delete it to describe the file anew, or leave --headerless out"});
  }
  if (options.document_token && file.type() == data::TokenType::uint16 &&
      *options.document_token > UINT16_MAX) {
    throw DataError(Fault{file.bin_path(),
                          {},
                          fmt::format("--document-token {}", *options.document_token),
                          "a token of 16 bits",
                          "name the token that ends its documents"});
  }
  // Whether it can be written is known before the file is read through.
  if (options.write_side_car && !file.has_side_car()) data::FileWriter(data::side_car_path(file.bin_path()));
  if (file.has_side_car()) file.verify();
  if (tokenizer) file.require_vocabulary(tokenizer->size());
  std::optional<data::Sampler> sampler;
  std::optional<Sample> sample;
  if (options.sample) {
    data::SamplerOptions how;
    how.sources = {{options.prefix, std::nullopt}};
    how.sequence_length = options.length;
    how.vocabulary = file.facts().largest_token + 1;
    how.seed = options.seed.value_or(0);
    how.shuffle = options.seed.has_value();
    sampler.emplace(std::move(how), std::move(files));
    sample = read_sample(*sampler, options);
  }

  if (options.json) {
    nlohmann::ordered_json object = as_json(file);
    if (tokenizer) object["tokenizer_matches"] = file.facts().tokenizer == tokenizer->fingerprint();
    if (sample) {
      object["sample"] = {
          {"index", *options.sample},
          {"epoch", options.epoch},
          {"seed", options.seed ? nlohmann::ordered_json(*options.seed) : nlohmann::ordered_json()},
          {"first_token", sample->place.first_token},
          {"tokens", sample->tokens},
          {"document_starts", sample->starts}};
      if (tokenizer) object["sample"]["text"] = tokenizer->decode(sample->tokens);
    }
    fmt::print("{}\n", object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    print_facts(file, options.write_side_car);
    if (tokenizer) fmt::print("  tokenizer      {}\n", tokenizer_verdict(file.facts(), *tokenizer));
    if (sample) print_sample(options, *sample, tokenizer ? &*tokenizer : nullptr);
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
  command->add_option("prefix", options->prefix, "the token files' path, with or without .idx or .bin")
      ->required()
      ->type_name("PREFIX");
  command->add_option("--tokenizer", options->tokenizer, "tokenizer.json, to compare and to show text")
      ->type_name("FILE");
  command->add_option("--sample", options->sample, "show the K-th sample of --length + 1 tokens, from 0")
      ->check(whole_number(0, int64_t{1} << 62))
      ->type_name("K");
  command->add_option("--length", options->length, "a sample's inputs: model.sequence_length")
      ->check(whole_number(1, int64_t{1} << 24))
      ->capture_default_str()
      ->type_name("T");
  command
      ->add_option("--seed", options->seed,
                   "in the order of a run with this run.seed and this file alone; else the file's")
      ->check(whole_number(0, int64_t{1} << 62))
      ->type_name("S");
  command->add_option("--epoch", options->epoch, "of that epoch, from 0")
      ->check(whole_number(0, int64_t{1} << 40))
      ->type_name("E");
  command->add_option("--headerless", options->headerless, "a .bin of nothing but such tokens (nanoGPT)")
      ->check(CLI::IsMember({"uint16", "uint32"}))
      ->type_name("TYPE");
  command
      ->add_option("--document-token", options->document_token,
                   "with --headerless: the token that ends documents; without it the tokenizer's end of text")
      ->check(whole_number(0, std::numeric_limits<int32_t>::max()))
      ->type_name("ID");
  command->add_flag("--json", options->json, "one JSON object on standard output");
  command->add_flag("--write-side-car", options->write_side_car,
                    "write PREFIX.bin.meta.toml where it is missing (files of other tools)");
  command->footer(
      "Examples:\n"
      "  penstock data inspect book\n"
      "  penstock data inspect book --tokenizer tokenizer.json --sample 0\n"
      "  penstock data inspect train.bin --headerless uint16 --document-token 50256 --write-side-car");
  command->parse_complete_callback([options, command] {
    if (!options->sample) {
      refuse_given(
          *command, "it belongs to a sample",
          {{"--length", "add --sample K"}, {"--seed", "add --sample K"}, {"--epoch", "add --sample K"}});
    }
    if (!options->seed)
      refuse_given(*command, "the file's order has no epochs", {{"--epoch", "add --seed S"}});
    if (options->headerless.empty())
      refuse_given(*command, "only files without a header need it",
                   {{"--document-token", "add --headerless TYPE"}});
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
