#include "trainer/commands/replay.h"

#include <sstream>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/commands/run_command.h"

namespace penstock::commands {
namespace {

using testing::HasSubstr;

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

Outcome replay(const std::vector<std::string>& arguments) {
  CLI::App app{"penstock"};
  ReplayArguments options;
  add_replay_options(app, options);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    return {2, "", error.what()};
  }
  std::ostringstream out;
  try {
    const int code = run_replay_command(options, out);
    return {code, out.str(), ""};
  } catch (const std::runtime_error& error) {
    return {static_cast<int>(exit_code_of(error)), out.str(), error.what()};
  }
}

TEST(Replay, PrintsALineAStepAndThePrediction) {
  const Outcome outcome = replay({"--pipeline", "4", "--micro-batches", "8", "--costs", "1,1,1", "--steps",
                                  "3", "--disturb", "step 2 evaluation pause 11ms"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  // (M + P − 1) · 3 ms; bubble (P − 1) / (M + P − 1).
  EXPECT_THAT(outcome.out, HasSubstr("      1     33.000   27.27"));
  EXPECT_THAT(outcome.out, HasSubstr("      2     44.000   27.27"));
  EXPECT_THAT(outcome.out,
              HasSubstr("mean 36.667 ms a step; simulated without disturbances and noise 33.000 ms"));
}

TEST(Replay, RefusesInWords) {
  const std::vector<std::string> sizes{"--pipeline", "2", "--micro-batches", "4"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), sizes.begin(), sizes.end());
    return replay(more);
  };
  EXPECT_THAT(with({"--stage-costs", "1,1,1"}).err, HasSubstr("was given 1 times for 2 stages"));
  EXPECT_THAT(with({"--disturb", "rank 7 slower 5%"}).err, HasSubstr("there is no rank 7"));
  EXPECT_THAT(with({"--disturb", "rank 7 slwer 5%"}).err, HasSubstr("column 8"));
  EXPECT_THAT(with({"--correlation", "1"}).err, HasSubstr("--correlation"));
  EXPECT_THAT(with({"--stamps", "/nonexistent/x.csv"}).err,
              HasSubstr("/nonexistent/x.csv.partial: cannot create it: No such file"));
  EXPECT_EQ(with({"--stamps", "/nonexistent/x.csv"}).code, 6);
  EXPECT_THAT(with({"--disturb", "link 1->1 +5ms"}).err, HasSubstr("between two ranks"));
  EXPECT_THAT(with({"--disturb", "step 10 rank 1 slower 5%"}).err, HasSubstr("none of the steps 0 to 9"));
  EXPECT_EQ(with({"--disturb", "step 10 rank 1 slower 5%", "--steps", "11"}).code, 0);
  EXPECT_EQ(with({"--disturb", "step 10 rank 1 slower 5%", "--first-step", "5"}).code, 0);
}

}  // namespace
}  // namespace penstock::commands
