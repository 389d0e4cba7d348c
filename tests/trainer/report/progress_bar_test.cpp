#include "trainer/report/progress_bar.h"

#include <cstdlib>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::report {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// A bar that draws into a file, by a clock that the test moves.
class Bar : public testing::Test {
 protected:
  ProgressTarget target(bool redraw, int columns = 80) {
    ProgressTarget result;
    result.stream = stream_.get();
    result.redraw = redraw;
    result.columns = columns;
    result.now = [this] { return now_; };
    return result;
  }
  void wait(int ms) { now_ += milliseconds(ms); }
  std::string drawn() {
    std::fflush(stream_.get());
    std::string text(static_cast<size_t>(std::ftell(stream_.get())), '\0');
    std::rewind(stream_.get());
    EXPECT_EQ(std::fread(text.data(), 1, text.size(), stream_.get()), text.size());
    return text;
  }

  std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream_{std::tmpfile(), &std::fclose};
  std::chrono::steady_clock::time_point now_{};
};

TEST_F(Bar, PlainLinesComeRarely) {
  ProgressBar bar({"preparing", "B", ProgressUnit::bytes, 1'000'000}, target(false));
  for (int i = 1; i <= 250; ++i) {
    wait(100);
    bar.update(static_cast<uint64_t>(i) * 4000);
  }
  bar.finish();
  EXPECT_EQ(drawn(),
            "preparing  40 % 400.0 kB / 1.0 MB  15.0 s left  40.0 kB/s\n"
            "preparing  80 % 800.0 kB / 1.0 MB  5.0 s left  40.0 kB/s\n"
            "preparing 100 % 1.0 MB / 1.0 MB  40.0 kB/s  in 25.0 s\n");
}

TEST_F(Bar, ATerminalIsRedrawnAtMostTenTimesASecond) {
  {
    ProgressBar bar({"merging", "tokens", ProgressUnit::count, 2000}, target(true, 120));
    for (int i = 1; i <= 1000; ++i) {
      wait(1);
      bar.update(static_cast<uint64_t>(i));
    }
    wait(1);
    bar.finish();
  }
  const std::string text = drawn();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 12);  // at the start, ten times, at the end
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_THAT(text, HasSubstr("merging  50 % [###############               ] 1,000 / 2,000 tokens"));
}

TEST_F(Bar, ALineNeverWraps) {
  for (const int columns : {1, 10, 30, 50, 80, 200}) {
    ProgressBar bar({"preparing", "B", ProgressUnit::bytes, 3'000'000'000'000}, target(true, columns));
    wait(1000);
    bar.update(1'234'567'890'123);
    bar.finish();
  }
  std::string text = drawn();
  size_t largest = 0;
  for (size_t at = text.find('\r'); at != std::string::npos; at = text.find('\r', at + 1)) {
    largest = std::max(largest, text.find('\x1b', at) - at - 1);
  }
  EXPECT_LT(largest, 110u);
  EXPECT_THAT(text, HasSubstr("\rpreparing\x1b"));
}

TEST_F(Bar, AnOpenLineIsEndedWhenWorkFails) {
  { ProgressBar bar({"preparing", "B", ProgressUnit::bytes, 100}, target(true)); }
  EXPECT_EQ(drawn().back(), '\n');
}

TEST_F(Bar, WorksWithoutATotal) {
  ProgressBar bar({"reading", "B", ProgressUnit::bytes, std::nullopt}, target(false));
  wait(2000);
  bar.update(5000);
  bar.finish();
  EXPECT_EQ(drawn(), "reading 5.0 kB  2.5 kB/s  in 2.0 s\n");
}

TEST_F(Bar, WhatAnEarlierProcessDidIsNoRate) {
  ProgressBar bar({"preparing", "B", ProgressUnit::bytes, 10'000, 5000}, target(false));
  wait(10'000);
  bar.update(6000);
  wait(1000);
  bar.finish();
  EXPECT_EQ(drawn(),
            "preparing  60 % 6.0 kB / 10.0 kB  40.0 s left  100 B/s\n"
            "preparing  60 % 6.0 kB / 10.0 kB  90 B/s  in 11.0 s\n");
}

TEST_F(Bar, SurvivesNothingAndTooMuch) {
  ProgressBar none({"empty", "B", ProgressUnit::bytes, 0}, target(false));
  none.finish();
  ProgressBar more({"grown", "B", ProgressUnit::bytes, 10}, target(true));
  wait(1000);
  more.update(25);
  more.finish();
  EXPECT_THAT(drawn(), testing::AllOf(HasSubstr("empty 0 B  in 0.0 s\n"), HasSubstr("grown 100 % [###")));
}

TEST(ProgressTarget, ObeysNoColorAndDumbTerminals) {
  // Standard error of a test is no terminal as a rule; these two decide even where it is one.
  const char* terminal = std::getenv("TERM");
  const std::string before = terminal == nullptr ? "" : terminal;
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(ProgressTarget::standard_error().redraw);
  ::unsetenv("NO_COLOR");
  ::setenv("TERM", "dumb", 1);
  EXPECT_FALSE(ProgressTarget::standard_error().redraw);
  ::setenv("TERM", before.c_str(), 1);
}

TEST(Format, Amounts) {
  EXPECT_EQ(format_amount(0, ProgressUnit::bytes, "B"), "0 B");
  EXPECT_EQ(format_amount(999, ProgressUnit::bytes, "B"), "999 B");
  EXPECT_EQ(format_amount(1000, ProgressUnit::bytes, "B"), "1.0 kB");
  EXPECT_EQ(format_amount(999'949, ProgressUnit::bytes, "B"), "999.9 kB");
  EXPECT_EQ(format_amount(999'950, ProgressUnit::bytes, "B"), "1.0 MB");
  EXPECT_EQ(format_amount(~uint64_t{0}, ProgressUnit::bytes, "B"), "18.4 EB");
  EXPECT_EQ(format_amount(12, ProgressUnit::count, ""), "12");
  EXPECT_EQ(format_amount(1234567, ProgressUnit::count, "tokens"), "1,234,567 tokens");
}

TEST(Format, Durations) {
  EXPECT_EQ(format_duration(0), "0.0 s");
  EXPECT_EQ(format_duration(59.94), "59.9 s");
  EXPECT_EQ(format_duration(59.96), "1:00");
  EXPECT_EQ(format_duration(185), "3:05");
  EXPECT_EQ(format_duration(7385), "2:03:05");
}

}  // namespace
}  // namespace penstock::report
