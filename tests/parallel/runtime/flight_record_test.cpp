#include "parallel/runtime/flight_record.h"

#include <vector>

#include <gtest/gtest.h>

#include "parallel/runtime/executor.h"

namespace penstock::runtime {
namespace {

Step step(Lane lane, int micro_batch) {
  Step made;
  made.lane = lane;
  made.instruction.action.micro_batch = micro_batch;
  return made;
}

TEST(FlightRecord, ShowsTheFirstOfEachLaneThatHasNotEnded) {
  FlightRecord record(true);
  EXPECT_FALSE(record.now().working);
  const std::vector<Step> steps{step(Lane::compute, 0), step(Lane::receive, 1), step(Lane::compute, 2)};
  std::vector<Stamp> stamps(3);
  stamps[0].start = stamps[2].start = 3;  // of an earlier step
  stamps[0].end = stamps[2].end = 4;
  record.begin(steps, stamps, 10);
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
  const std::vector<Step> steps{step(Lane::compute, 0), step(Lane::reduction, 1), step(Lane::reduction, 2)};
  std::vector<Stamp> stamps(3);
  record.begin(steps, stamps, 10, 1);
  const auto head = [&] { return record.now().heads[static_cast<size_t>(Lane::reduction)]; };
  EXPECT_EQ(head()->instruction.action.micro_batch, 2);
  stamps[2].start = 10;
  stamps[2].end = 11;
  EXPECT_EQ(head()->instruction.action.micro_batch, 1);
  EXPECT_EQ(record.now().heads[0]->instruction.action.micro_batch, 0);
}

TEST(FlightRecord, KeepsTheLastThousand) {
  FlightRecord record(true);
  constexpr int of_a_list = 300;
  std::vector<Step> steps;
  for (int i = 0; i < of_a_list; ++i) steps.push_back(step(Lane::compute, i));
  std::vector<Stamp> stamps(of_a_list);
  double now = 1;
  for (int list = 0; list < 5; ++list) {
    record.begin(steps, stamps, now);
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
