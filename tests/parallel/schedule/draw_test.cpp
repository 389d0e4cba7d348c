#include "parallel/schedule/draw.h"

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/parallel/schedule/lowered.h"

namespace penstock::schedule {
namespace {

struct Drawn {
  Program program;
  Timeline timeline;
};

Drawn drawn(const char* name, const ScheduleOptions& options, const StageCosts& stage = {1, 1, 1}) {
  const Schedule schedule = generate(name, options);
  const Costs costs = stage_costs(schedule, stage);
  Program program = lower(schedule, costs, {});
  Timeline timeline = simulate(program, costs);
  return {std::move(program), std::move(timeline)};
}

TEST(Drawing, TerminalShowsEachActionInItsPlace) {
  const Drawn at = drawn("1f1b", {2, 2});
  // Nine units in 27 columns behind the label.
  EXPECT_EQ(draw_terminal(at.program, at.timeline, {7 + 27, false}),
            "rank 0 F0-F1-......B0----...B1----\n"
            "rank 1 ...F0-B0----F1-B1----......\n"
            "F forward, B backward; . idle\n");
}

TEST(Drawing, TerminalFitsAnyWidth) {
  for (const char* name : {"zbv", "dualpipe", "interleaved"}) {
    const Drawn at = drawn(name, {4, 64});
    for (const int width : {20, 79, 200}) {
      std::istringstream lines(draw_terminal(at.program, at.timeline, {width, false}));
      std::string line;
      for (int rank = 0; rank < 4; ++rank) {
        std::getline(lines, line);
        EXPECT_EQ(static_cast<int>(line.size()), width) << name;
        EXPECT_EQ(line.find('\x1b'), std::string::npos);
      }
    }
  }
}

TEST(Drawing, ColourIsOnlyAddedWhereAsked) {
  const Drawn at = drawn("zb-h1", {2, 4});
  const std::string plain = draw_terminal(at.program, at.timeline, {80, false});
  std::string colored = draw_terminal(at.program, at.timeline, {80, true});
  EXPECT_NE(plain, colored);
  std::string stripped;
  for (size_t i = 0; i < colored.size(); ++i) {
    if (colored[i] == '\x1b') {
      i = colored.find('m', i);
    } else {
      stripped += colored[i];
    }
  }
  EXPECT_EQ(stripped, plain);
}

TEST(Drawing, NothingToDraw) {
  const Drawn at = drawn("1f1b", {2, 2}, {0, 0, 0});
  EXPECT_EQ(draw_terminal(at.program, at.timeline, {80, false}), "(nothing takes any time)\n");
  EXPECT_THAT(draw_svg(at.program, at.timeline, "x"), testing::Not(testing::HasSubstr("nan")));
}

TEST(Drawing, SvgHasABarForEveryAction) {
  const Drawn at = drawn("zbv", {4, 8});
  const std::string svg = draw_svg(at.program, at.timeline, "a <title> & more");
  EXPECT_THAT(svg, testing::StartsWith("<svg "));
  EXPECT_THAT(svg, testing::EndsWith("</svg>\n"));
  EXPECT_THAT(svg, testing::HasSubstr("a &lt;title&gt; &amp; more"));
  const std::ptrdiff_t closed = std::count(svg.begin(), svg.end(), 'z');
  EXPECT_GE(closed, 4 * 8 * 6);
  EXPECT_LT(svg.size(), 30000u);
}

}  // namespace
}  // namespace penstock::schedule
