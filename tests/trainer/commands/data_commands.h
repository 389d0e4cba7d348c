// The data commands as a user gives them: arguments in, files, output and status out.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <gtest/gtest.h>

#include "data/token_file.h"
#include "data/tokenizer_json.h"
#include "tests/data/temporary_folder.h"
#include "trainer/commands/data_inspect.h"
#include "trainer/commands/data_prepare.h"
#include "trainer/commands/tokenizer_train.h"

namespace penstock::commands {

struct Outcome {
  int status;  // -1: refused by the argument parser
  std::string out;
  std::string error;
};

inline Outcome run(std::vector<std::string> arguments) {
  CLI::App app{"penstock"};
  app.require_subcommand(1);
  int status = -1;
  CLI::App* tokenizer = app.add_subcommand("tokenizer");
  CLI::App* data = app.add_subcommand("data");
  add_tokenizer_train(*tokenizer, status);
  add_data_prepare(*data, status);
  add_data_inspect(*data, status);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  std::string refusal;
  try {
    std::reverse(arguments.begin(), arguments.end());
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    refusal = error.what();
    status = -1;
  }
  std::string out = testing::internal::GetCapturedStdout();
  std::string error = testing::internal::GetCapturedStderr();
  return {status, out, error + refusal};
}

inline std::string verses(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += "And it came to pass in the " + std::to_string(i * i % 97) +
            "th year, that the king said unto them.\n";
    if (i % 5 == 4) text += "\n";
  }
  return text;
}

inline std::string tokens_as_text(const std::string& prefix, const std::string& tokenizer) {
  const data::TokenFile file(prefix);
  std::vector<int32_t> tokens(file.tokens());
  file.read(0, tokens, 1 << 30);
  return data::load_tokenizer(tokenizer).decode(tokens);
}

class DataCommands : public testing::Test {
 protected:
  void SetUp() override {
    tests::put_file(folder_ / "text.txt", verses(200));
    ASSERT_EQ(train({"text.txt"}, "300", "tok.json").status, 0);
  }
  Outcome train(const std::vector<std::string>& inputs, const std::string& size, const std::string& output) {
    std::vector<std::string> arguments{"tokenizer", "train",          "--vocab-size", size,
                                       "--output",  folder_ / output, "--input"};
    for (const std::string& input : inputs) arguments.push_back(folder_ / input);
    return run(arguments);
  }
  Outcome prepare(const std::string& input, const std::string& output,
                  const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"data",     "prepare",        "--tokenizer", folder_ / "tok.json",
                                       "--output", folder_ / output, "--input",     folder_ / input};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
  tests::TemporaryFolder folder_;
};

}  // namespace penstock::commands
