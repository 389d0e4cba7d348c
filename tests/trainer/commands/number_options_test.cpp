// Every numeric option of every command refuses what is no number, or out of range, in words.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/commands/data_inspect.h"
#include "trainer/commands/data_prepare.h"
#include "trainer/commands/eval.h"
#include "trainer/commands/generate.h"
#include "trainer/commands/number_check.h"
#include "trainer/commands/plan.h"
#include "trainer/commands/profile.h"
#include "trainer/commands/tokenizer_train.h"
#include "trainer/commands/train.h"

namespace penstock::commands {
namespace {

using testing::ContainsRegex;

// Commands and their options, never run.
struct Program {
  CLI::App app{"penstock"};
  int status = 0;

  Program() {
    add_train(app, status, {});
    add_eval(app, status);
    add_generate(app, status);
    add_plan(app, status);
    add_profile(app, status);
    add_data_prepare(app, status);
    add_data_inspect(app, status);
    CLI::App* tokenizer = app.add_subcommand("tokenizer");
    add_tokenizer_train(*tokenizer, status);
  }

  std::vector<CLI::App*> commands() {
    std::vector<CLI::App*> all = app.get_subcommands([](const CLI::App*) { return true; });
    for (CLI::App* sub :
         app.get_subcommand("tokenizer")->get_subcommands([](const CLI::App*) { return true; }))
      all.push_back(sub);
    return all;
  }
};

// The text that a word is refused with; empty if it is taken.
std::string refusal(const CLI::Option& option, std::string word) {
  for (int index = 0;; ++index) {
    const CLI::Validator* check = nullptr;
    try {
      check = const_cast<CLI::Option&>(option).get_validator(index);
    } catch (const CLI::OptionNotFound&) {
      return "";
    }
    const std::string text = (*check)(word);
    if (!text.empty()) return text;
  }
}

TEST(NumberOptions, RefuseWhatIsNoNumberInRange) {
  // How the help names their values; an option with another name takes text.
  const std::set<std::string> numeric{"N", "N,...", "K", "X", "P", "T", "F", "INT", "UINT", "FLOAT"};
  Program program;
  int options = 0;
  for (CLI::App* command : program.commands()) {
    for (const CLI::Option* option : command->get_options()) {
      if (numeric.count(option->get_type_name()) == 0) continue;
      ++options;
      for (const char* word : {"-1", "abc", "", "1e999", "nan", "99999999999999999999999", "3x"}) {
        EXPECT_THAT(refusal(*option, word),
                    ContainsRegex("expected a (whole )?number from [-+.e0-9]+ to [-+.e0-9]+$"))
            << command->get_name() << " " << option->get_name() << " " << word;
      }
    }
  }
  EXPECT_EQ(options, 22) << "an option was added or lost; does its value's name tell that it is a number?";
}

TEST(NumberOptions, TakeBothEndsOfTheRange) {
  EXPECT_EQ(whole_number(-2, 5)("-2"), "");
  EXPECT_EQ(whole_number(-2, 5)("5"), "");
  EXPECT_EQ(whole_number(-2, 5)("6"), "\"6\": expected a whole number from -2 to 5");
  EXPECT_EQ(whole_number(0, 5)("2.0"), "\"2.0\": expected a whole number from 0 to 5");
  EXPECT_EQ(real_number(1e-9, 1)("1e-9"), "");
  EXPECT_EQ(real_number(1e-9, 1)("1"), "");
  EXPECT_EQ(real_number(1e-9, 1)("0"), "\"0\": expected a number from 1e-09 to 1");
}

}  // namespace
}  // namespace penstock::commands
