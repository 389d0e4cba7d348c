// Options that mean something in one form of a command only are refused in the other, with what to give
// instead. Parsed by the commands' own definitions; nothing is run.
#include <functional>
#include <string>

#include <CLI/CLI.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/commands/data_inspect.h"
#include "trainer/commands/job.h"
#include "trainer/commands/plan.h"
#include "trainer/commands/profile.h"
#include "trainer/commands/replay.h"

namespace penstock::commands {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// What a command line is refused with. One that is taken runs, and ends with an error of its own: no file of
// these exists.
std::string refusal(const std::string& line) {
  CLI::App app{"penstock"};
  int code = 0;
  add_plan(app, code);
  add_replay(app, code);
  add_profile(app, code);
  add_job(app, code);
  add_data_inspect(app, code);
  testing::internal::CaptureStderr();
  std::string text;
  try {
    app.parse(line, false);
  } catch (const CLI::ParseError& error) {
    text = error.what();
  }
  testing::internal::GetCapturedStderr();
  return text;
}

TEST(ForeignOptions, AJobSaysItsOwnSchedule) {
  for (const char* command : {"plan", "replay"}) {
    const auto refused = [&](const std::string& options) {
      return refusal(std::string(command) + " /nowhere/job.toml " + options);
    };
    EXPECT_THAT(refused("--pipeline 4"),
                AllOf(HasSubstr("--pipeline would have no effect: the job file says"),
                      HasSubstr("instead: --set parallel.pipeline=4")));
    EXPECT_THAT(refused("--chunks 2"), HasSubstr("--set parallel.chunks=2"));
    EXPECT_THAT(refused("--warmup-slack 1"), HasSubstr("--set parallel.warmup_slack=1"));
    EXPECT_THAT(refused("--micro-batches 8"), HasSubstr("--set batch.micro=N"));
    EXPECT_THAT(refused("--costs 1,1,1"), HasSubstr("--profile FILE"));
    EXPECT_THAT(refused("--pipeline 4 --chunks 2 --costs 1,1,1"),
                AllOf(HasSubstr("--pipeline, --chunks, --costs would have no effect"),
                      HasSubstr("--set parallel.pipeline=4, --set parallel.chunks=2, --profile FILE")));
    EXPECT_EQ(refused("--set run.steps=1"), "");
  }
}

TEST(ForeignOptions, PlansOfAJob) {
  EXPECT_THAT(refusal("plan j.toml --schedule 1f1b"), HasSubstr("either a job file or a schedule, not both"));
  EXPECT_THAT(refusal("plan"), HasSubstr("name a job file, --schedule or --schedules"));
  EXPECT_THAT(refusal("plan j.toml --svg x.svg"), HasSubstr("--svg would have no effect"));
  EXPECT_THAT(refusal("plan j.toml --emit-csv x.csv"), HasSubstr("--emit-csv would have no effect"));
  EXPECT_THAT(refusal("plan j.toml --waves 2"), HasSubstr("--waves would have no effect"));
}

TEST(ForeignOptions, PlansOfASchedule) {
  for (const char* option :
       {"--set run.steps=1", "--profile p.json", "--cluster c.toml", "--any-micro", "--brief", "--memory"}) {
    EXPECT_THAT(refusal(std::string("plan --schedule 1f1b --pipeline 2 --micro-batches 2 ") + option),
                AllOf(HasSubstr("would have no effect: a schedule is planned without a model"),
                      HasSubstr("name a job file")))
        << option;
  }
}

TEST(ForeignOptions, ReplaysOfAJob) {
  EXPECT_THAT(refusal("replay j.toml --schedule zbv"), HasSubstr("--set parallel.schedule=zbv"));
  for (const char* option : {"--stage-costs 1,1,1", "--reduction 1", "--tied-sum 1", "--optimizer 1"})
    EXPECT_THAT(refusal(std::string("replay j.toml ") + option), HasSubstr("instead: --profile FILE"))
        << option;
}

TEST(ForeignOptions, ReplaysOfASchedule) {
  const std::string sizes = "replay --pipeline 2 --micro-batches 2 ";
  EXPECT_THAT(refusal(sizes + "--profile p.json"), HasSubstr("--profile would have no effect"));
  EXPECT_THAT(refusal(sizes + "--set run.steps=1"), HasSubstr("--set would have no effect"));
  EXPECT_THAT(refusal(sizes + "--message-bytes 8"), HasSubstr("instead: add --sleep"));
  EXPECT_THAT(refusal(sizes + "--correlation 0.5"), HasSubstr("instead: add --rank-noise"));
  EXPECT_THAT(refusal(sizes + "--action-noise 1 --correlation 0.5"), HasSubstr("instead: add --rank-noise"));
  EXPECT_THAT(refusal(sizes + "--seed 5"), HasSubstr("there is no noise"));
}

TEST(ForeignOptions, OtherCommands) {
  EXPECT_THAT(refusal("profile j.toml --from-run runs/x"), HasSubstr("name either a job file or a run"));
  EXPECT_THAT(refusal("profile --from-run runs/x --repetitions 9"), HasSubstr("instead: name the job file"));
  EXPECT_THAT(refusal("profile --from-run runs/x --micro-batches 1,2 --recompute none --set run.steps=1"),
              HasSubstr("--set, --micro-batches, --recompute would have no effect"));
  EXPECT_THAT(refusal("job --docs j.toml"), HasSubstr("job would have no effect"));
  EXPECT_THAT(refusal("job"), HasSubstr("name a job file, or pass --docs"));
  EXPECT_THAT(refusal("inspect book --length 8"), HasSubstr("instead: add --sample K"));
}

}  // namespace
}  // namespace penstock::commands
