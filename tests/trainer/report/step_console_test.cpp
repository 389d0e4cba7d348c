#include "trainer/report/step_console.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::report {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A console on a temporary file, and a clock that the test moves.
class StepConsoleTest : public testing::Test {
 protected:
  StepConsoleTest() {
    options.stream = std::tmpfile();
    options.total_steps = 100;
    options.now = [this] { return now; };
  }
  ~StepConsoleTest() override { std::fclose(options.stream); }

  std::string shown() {
    std::rewind(options.stream);
    std::string out;
    for (int c = std::fgetc(options.stream); c != EOF; c = std::fgetc(options.stream))
      out += static_cast<char>(c);
    return out;
  }
  static StepMetrics step(int64_t number) {
    StepMetrics metrics;
    metrics.step = number;
    metrics.loss = 3.456789;
    metrics.grad_norm = 0.5;
    metrics.learning_rate = 3e-4;
    metrics.tokens_per_second = 12345;
    metrics.matmul_share = 0.614;
    metrics.memory_peak_bytes = 1.5 * (1 << 30);
    return metrics;
  }

  ConsoleOptions options;
  std::chrono::steady_clock::time_point now{std::chrono::seconds(1000)};
};

TEST_F(StepConsoleTest, PlainLinesHoldEverything) {
  StepConsole console(options);
  console.step(step(1));
  now += std::chrono::seconds(2);
  console.step(step(2));
  EXPECT_EQ(shown(),
            "step   1/100 | loss 3.4568 | grad 0.500 | lr 3.00e-04 | 12.3k tok/s | matmul 61 % | 1.50 GiB\n"
            "step   2/100 | loss 3.4568 | grad 0.500 | lr 3.00e-04 | 12.3k tok/s | matmul 61 % | 1.50 GiB | "
            "3:16 left\n");
}

TEST_F(StepConsoleTest, APipelineShowsItsBubbleAndItsSlowestStage) {
  StepConsole console(options);
  StepMetrics metrics = step(1);
  metrics.bubble_ratio = 0.1814;
  metrics.slowest_stage = 3;
  metrics.stage_imbalance = 0.062;
  metrics.ranks.resize(1);
  console.step(metrics);
  EXPECT_THAT(shown(), Not(HasSubstr("bubble"))) << "one rank has none";
  metrics.ranks.resize(4);
  console.step(metrics);
  EXPECT_THAT(shown(), HasSubstr(" | bubble 18.1 %, stage 3 slowest (+6.2 %) | 1.50 GiB"));
}

TEST_F(StepConsoleTest, WhatIsNotKnownIsLeftOut) {
  StepConsole console(options);
  StepMetrics metrics;
  metrics.step = 99;
  metrics.loss = std::numeric_limits<double>::quiet_NaN();
  metrics.memory_peak_bytes = 1.5 * (1 << 20);
  metrics.tokens_per_second = 2.5e6;
  console.step(metrics);
  EXPECT_EQ(shown(), "step  99/100 | loss nan | 2.50M tok/s | 1.5 MiB\n");
}

TEST_F(StepConsoleTest, ShowsEveryKthTheFirstAndTheLast) {
  options.every_steps = 40;
  {
    StepConsole console(options);
    for (int64_t i = 7; i <= 90; ++i) console.step(step(i));
  }
  const std::string text = shown();
  for (const char* line : {"step   7/100", "step  40/100", "step  80/100", "step  90/100"})
    EXPECT_THAT(text, HasSubstr(line));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
}

TEST_F(StepConsoleTest, ATerminalLineIsRedrawnAtMostTenTimesASecond) {
  options.redraw = true;
  options.columns = 40;
  {
    StepConsole console(options);
    for (int64_t i = 1; i <= 50; ++i) {
      console.step(step(i));
      now += std::chrono::milliseconds(10);
    }
  }
  const std::string text = shown();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 6);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_THAT(text, StartsWith("\rstep   1/100 | loss 3.4568 | grad 0.500\x1b[K\rstep  11/100"));
  EXPECT_THAT(text, HasSubstr("\rstep  50/100"));
  EXPECT_EQ(text.back(), '\n');
}

TEST_F(StepConsoleTest, ANoteStandsOnItsOwnLine) {
  options.redraw = true;
  options.columns = 20;
  StepConsole console(options);
  console.note("before");
  console.step(step(1));
  console.note("validation loss 3.21");
  EXPECT_EQ(shown(),
            "before\n\rstep   1/100 | loss\x1b[K\r\x1b[Kvalidation loss 3.21\n\rstep   1/100 | loss\x1b[K");
}

TEST_F(StepConsoleTest, AFailureIsSaidEvenThere) {
  options.quiet = true;
  testing::internal::CaptureStderr();
  StepConsole(options).failure("ended after step 3 of 9: NaN");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "penstock: ended after step 3 of 9: NaN\n");
  EXPECT_EQ(shown(), "");
}

TEST_F(StepConsoleTest, QuietIsQuiet) {
  options.quiet = true;
  {
    StepConsole console(options);
    console.step(step(1));
    console.note("note");
  }
  EXPECT_EQ(shown(), "");
}

TEST_F(StepConsoleTest, TheLastStepHasNoTimeLeft) {
  StepConsole console(options);
  console.step(step(99));
  now += std::chrono::seconds(1);
  console.step(step(100));
  EXPECT_THAT(shown(), Not(HasSubstr("left")));
}

TEST_F(StepConsoleTest, AClosedTerminalIsNoError) {
  std::FILE* full = std::fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  options.total_steps = 3;
  std::swap(options.stream, full);
  {
    StepConsole console(options);
    console.step(step(1));
    console.note("note");
    console.step(step(3));
  }
  std::swap(options.stream, full);
  EXPECT_NE(std::ferror(full), 0);
  std::fclose(full);
}

}  // namespace
}  // namespace penstock::report
