#include "parallel/runtime/flight_record.h"

#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "parallel/runtime/executor.h"

namespace penstock::runtime {
namespace {

Step step(Lane lane, int micro_batch, size_t stamp, int parity = 0) {
  Step made;
  made.lane = lane;
  made.instruction.action.micro_batch = micro_batch;
  made.instruction.step = parity;
  made.stamp = stamp;
  return made;
}

EnqueuedList list_of(const std::vector<Step>& steps, const std::vector<Stamp>& stamps, double now,
                     size_t first = 0) {
  return {steps, {stamps, {}}, now, first};
}

TEST(FlightRecord, ShowsTheFirstOfEachLaneThatHasNotEnded) {
  FlightRecord record(true);
  EXPECT_FALSE(record.now().working);
  const std::vector<Step> steps{step(Lane::compute, 0, 0), step(Lane::receive, 1, 1),
                                step(Lane::compute, 2, 2)};
  std::vector<Stamp> stamps(3);
  stamps[0].start = stamps[2].start = 3;  // of an earlier step
  stamps[0].end = stamps[2].end = 4;
  record.begin(list_of(steps, stamps, 10));
  FlightRecord::View view = record.now();
  EXPECT_TRUE(view.working && view.live);
  EXPECT_EQ(view.heads[0]->instruction.action.micro_batch, 0);
  EXPECT_EQ(view.heads[0]->start, 0) << "what an earlier step left is not there";
  EXPECT_FALSE(view.heads[static_cast<size_t>(Lane::send)]);

  stamps[0].start = 10;
  stamps[0].end = 11;
  stamps[2].start = 12;
  view = record.now();
  EXPECT_EQ(view.heads[0]->instruction.action.micro_batch, 2);
  EXPECT_EQ(view.heads[0]->start, 12);
  EXPECT_EQ(record.lately().size(), 1U);

  // A later one of the lane that began first, as parameters that are gathered, is where it is.
  stamps[2].start = 0;
  stamps[0].end = 0;
  stamps[0].start = 0;
  stamps[2].start = 13;
  EXPECT_EQ(record.now().heads[0]->instruction.action.micro_batch, 2);
  stamps[0].start = 10;
  stamps[0].end = 11;

  record.end();
  EXPECT_FALSE(record.now().working);
  EXPECT_EQ(record.lately().size(), 1U) << "what had ended stays";
}

TEST(FlightRecord, KnowsWhatIsEnqueuedFirst) {
  FlightRecord record(true);
  const std::vector<Step> steps{step(Lane::compute, 0, 0), step(Lane::reduction, 1, 1),
                                step(Lane::reduction, 2, 2)};
  std::vector<Stamp> stamps(3);
  record.begin(list_of(steps, stamps, 10, 1));
  const auto head = [&] { return record.now().heads[static_cast<size_t>(Lane::reduction)]; };
  EXPECT_EQ(head()->instruction.action.micro_batch, 2);
  stamps[2].start = 10;
  stamps[2].end = 11;
  EXPECT_EQ(head()->instruction.action.micro_batch, 1);
  EXPECT_EQ(record.now().heads[0]->instruction.action.micro_batch, 0);
}

// Steps that overlap: a list has actions of two steps, each with stamps of its own, and its end stands in the
// next one's.
TEST(FlightRecord, FollowsListsThatOverlap) {
  FlightRecord record(true);
  const std::vector<Step> start{step(Lane::compute, 0, 0)};
  const std::vector<Step> even{step(Lane::compute, 1, 1, 1), step(Lane::compute, 0, 0)};
  const std::vector<Step> odd{step(Lane::compute, 1, 1), step(Lane::compute, 0, 0, 1)};
  std::array<std::vector<Stamp>, 4> stamps;
  for (std::vector<Stamp>& each : stamps) each.resize(2);
  const auto head = [&] { return record.now().heads[0]->instruction.action.micro_batch; };
  record.begin({start, {stamps[0], stamps[1]}, 1, 0}, true);
  record.begin({odd, {stamps[0], stamps[1]}, 2, 0}, false);
  EXPECT_EQ(head(), 0);
  EXPECT_EQ(record.now().begun, 1);
  stamps[0][0].start = 3;
  stamps[0][0].end = 4;
  EXPECT_EQ(head(), 1);
  EXPECT_EQ(record.now().begun, 2);
  stamps[0][1].start = 4;
  EXPECT_EQ(record.now().heads[0]->start, 4);
  stamps[0][1].end = stamps[1][0].start = 5;
  stamps[1][0].end = 6;
  record.begin({even, {stamps[2], stamps[1]}, 7, 0}, false);
  EXPECT_EQ(record.now().begun, 7);
  EXPECT_EQ(record.lately().size(), 3U);
  stamps[1][1].start = 8;
  stamps[1][1].end = 9;
  record.begin({odd, {stamps[2], stamps[3]}, 10, 0}, false);
  EXPECT_EQ(head(), 0);
  EXPECT_EQ(record.now().begun, 7);
  EXPECT_EQ(record.lately().size(), 4U) << "what ended in a list that is done stays";
  record.end();
  EXPECT_EQ(record.lately().back().end, 9);
}

TEST(FlightRecord, KeepsTheLastThousand) {
  FlightRecord record(true);
  constexpr int of_a_list = 300;
  std::vector<Step> steps;
  for (int i = 0; i < of_a_list; ++i) steps.push_back(step(Lane::compute, i, static_cast<size_t>(i)));
  std::vector<Stamp> stamps(of_a_list);
  double now = 1;
  for (int list = 0; list < 5; ++list) {
    record.begin(list_of(steps, stamps, now));
    for (Stamp& stamp : stamps) {
      stamp.start = now;
      stamp.end = ++now;
    }
  }
  for (const bool ended : {false, true}) {
    if (ended) record.end();
    const std::vector<Flight> last = record.lately();
    ASSERT_EQ(last.size(), FlightRecord::kept);
    EXPECT_EQ(last.back().end, now);
    EXPECT_EQ(last.front().end, now - static_cast<double>(FlightRecord::kept) + 1);
  }
}

}  // namespace
}  // namespace penstock::runtime
