#include "trainer/commands/tokenizer_convert.h"

#include <charconv>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "data/data_error.h"
#include "data/split_regex.h"
#include "data/tiktoken.h"
#include "data/tokenizer_json.h"
#include "trainer/commands/run_command.h"

namespace penstock::commands {
namespace {

struct ConvertOptions {
  std::string input;
  std::string split;
  std::vector<std::string> special;
  std::string output;
};

data::SpecialToken special_token(const std::string& given) {
  const size_t sign = given.rfind('=');
  data::SpecialToken token;
  const char* end = given.data() + given.size();
  const auto parsed = sign == std::string::npos || sign == 0
                          ? std::from_chars_result{nullptr, std::errc::invalid_argument}
                          : std::from_chars(given.data() + sign + 1, end, token.id);
  if (parsed.ec != std::errc() || parsed.ptr != end) {
    throw data::DataError(fmt::format(
        "--special: found `{}`, expected TEXT=ID; give for instance '<|endoftext|>=50256'", given));
  }
  token.text = given.substr(0, sign);
  return token;
}

void convert(const ConvertOptions& options) {
  std::vector<data::SpecialToken> special;
  for (const std::string& given : options.special) special.push_back(special_token(given));
  const data::Tokenizer tokenizer(data::load_tiktoken(options.input, options.split, std::move(special)),
                                  options.input);
  data::save_tokenizer(tokenizer, options.output);
  fmt::print("{}: {} tokens, {} of them special\n", options.output, tokenizer.size(),
             tokenizer.vocabulary().special.size());
}

}  // namespace

CLI::App* add_tokenizer_convert(CLI::App& parent, int& exit_code) {
  auto options = std::make_shared<ConvertOptions>();
  CLI::App* command = parent.add_subcommand("convert", "Turn a tiktoken rank file into a tokenizer.json");
  std::vector<std::string> names;
  for (const data::NamedSplit& split : data::named_splits()) names.emplace_back(split.name);
  command->add_option("--input", options->input, "a line a token: its bytes in base64, its rank")
      ->required()
      ->type_name("FILE");
  command->add_option("--split", options->split, "how text is split, which the file does not say")
      ->required()
      ->check(CLI::IsMember(names))
      ->type_name("NAME");
  command->add_option("--special", options->special, "special tokens, which the file does not have")
      ->type_name("TEXT=ID...");
  command->add_option("--output", options->output, "where to write (Hugging Face tokenizer.json)")
      ->required()
      ->type_name("FILE");
  command->footer(
      "Examples:\n"
      "  penstock tokenizer convert --input cl100k_base.tiktoken --split cl100k --special "
      "'<|endoftext|>=100257' --output tokenizer.json");
  command->callback([options, &exit_code] {
    exit_code = run_command([&] {
      convert(*options);
      return 0;
    });
  });
  return command;
}

}  // namespace penstock::commands
