// The command that a refusal tells the user to start is the one that was given, whole.
#include "trainer/commands/given_command.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace penstock::commands {
namespace {

struct Commands {
  CLI::App app{"x", "penstock"};
  CLI::App* profile = app.add_subcommand("profile");
  std::string job;
  std::vector<std::string> overrides;
  std::vector<int> sizes;
  bool sleep = false;
  std::string prompt;

  Commands() {
    profile->add_option("job", job);
    profile->add_option("--set", overrides)->expected(1)->take_all();
    profile->add_option("--sizes", sizes)->delimiter(',');
    profile->add_flag("--sleep", sleep);
    profile->add_option("--prompt", prompt);
  }
  std::string given(std::vector<std::string> words) {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    return given_command(*profile);
  }
};

TEST(GivenCommand, HasEveryArgument) {
  EXPECT_EQ(Commands().given({"profile", "a/job.toml"}), "penstock profile a/job.toml");
  EXPECT_EQ(Commands().given({"profile", "job.toml", "--set", "run.steps=3", "--set", "parallel.pipeline=2"}),
            "penstock profile job.toml --set run.steps=3 --set parallel.pipeline=2");
  EXPECT_EQ(Commands().given({"profile", "job.toml", "--sleep", "--sizes", "1,2,4"}),
            "penstock profile job.toml --sizes 1,2,4 --sleep");
}

TEST(GivenCommand, IsQuotedForAShell) {
  EXPECT_EQ(Commands().given({"profile", "my job.toml", "--set", "run.name=\"a b\"", "--prompt", "it's $5"}),
            "penstock profile 'my job.toml' --set 'run.name=\"a b\"' --prompt 'it'\\''s $5'");
  EXPECT_EQ(Commands().given({"profile", "j", "--set", "trace.steps=[1]"}),
            "penstock profile j --set 'trace.steps=[1]'");
}

}  // namespace
}  // namespace penstock::commands
