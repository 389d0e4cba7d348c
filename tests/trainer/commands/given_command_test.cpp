// The command that a refusal tells the user to start is the one that was given, whole.
#include "trainer/commands/given_command.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "trainer/commands/job_arguments.h"

namespace penstock::commands {
namespace {

struct Commands {
  CLI::App app{"x", "penstock"};
  CLI::App* profile = app.add_subcommand("profile");
  JobArguments job;
  std::vector<int> sizes;
  bool sleep = false;
  std::string prompt;

  Commands() {
    job.add_to(*profile, false);
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

TEST(JobArguments, AnOverrideTakesOneWord) {
  Commands commands;
  commands.given({"profile", "--set", "run.steps=3", "job.toml", "--set", "run.seed=1"});
  EXPECT_EQ(commands.job.file, "job.toml");
  EXPECT_EQ(commands.job.overrides, (std::vector<std::string>{"run.steps=3", "run.seed=1"}));
}

}  // namespace
}  // namespace penstock::commands
