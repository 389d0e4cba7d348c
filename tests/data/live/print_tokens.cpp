// print_tokens TOKENIZER [FILE [THREADS]]: for tests/program/tokenizer_check.py. A line of JSON on standard
// input is a text, a line of ids its tokens: first with special tokens recognised, then on a line of its own
// plain. With FILE: the seconds that encoding its lines takes instead, in one thread or so many.
#include <chrono>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "data/encoder.h"
#include "data/mapped_file.h"
#include "data/ordered_encoder.h"
#include "data/tokenizer_json.h"

namespace {

using namespace penstock::data;

void print_tokens(const Tokenizer& tokenizer) {
  Encoder encoder(tokenizer);
  for (std::string line; std::getline(std::cin, line);) {
    const auto text = nlohmann::json::parse(line).get<std::string>();
    for (const SpecialText special : {SpecialText::recognised, SpecialText::plain}) {
      fmt::print("{}\n", fmt::join(encoder.encode(text, special), " "));
    }
  }
}

// Lines with their ends, as the other library is given them.
void print_seconds(const Tokenizer& tokenizer, std::string_view text, size_t threads) {
  const auto begin = std::chrono::steady_clock::now();
  uint64_t tokens = 0;
  OrderedEncoder encoder(tokenizer, threads,
                         [&](std::span<const int32_t> ids, uint64_t /*tag*/) { tokens += ids.size(); });
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end == std::string_view::npos ? end : end + 1);
    encoder.add(line, 0);
    text.remove_prefix(line.size());
  }
  encoder.finish();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  fmt::print("{} {}\n", seconds.count(), tokens);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 2) throw std::runtime_error("usage: print_tokens TOKENIZER [FILE [THREADS]]");
    const Tokenizer tokenizer = load_tokenizer(argv[1]);
    if (argc == 2) {
      print_tokens(tokenizer);
    } else {
      const MappedFile file(argv[2]);
      print_seconds(tokenizer, file.text(), argc > 3 ? std::stoul(argv[3]) : 1);
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "print_tokens: {}\n", error.what());
    return 1;
  }
  return 0;
}
