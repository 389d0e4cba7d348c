#include "trainer/watchdog/activity.h"

#include <gtest/gtest.h>

namespace penstock::watchdog {
namespace {

using runtime::Flight;
using runtime::FlightRecord;
using runtime::Lane;
using schedule::InstructionKind;
using schedule::Op;

Flight flight(InstructionKind kind, Op op, int stage, int micro_batch, int peer, Lane lane, double start) {
  Flight made;
  made.instruction.kind = kind;
  made.instruction.action.op = op;
  made.instruction.action.stage = stage;
  made.instruction.action.micro_batch = micro_batch;
  made.instruction.peer = peer;
  made.lane = lane;
  made.start = start;
  return made;
}

FlightRecord::View working() {
  FlightRecord::View view;
  view.working = view.live = true;
  view.begun = 100;
  return view;
}

void put(FlightRecord::View& view, const Flight& one) {
  view.heads[static_cast<size_t>(one.lane)] = one;
}

TEST(Activity, OfNobodyWhoWorksIsNone) {
  EXPECT_EQ(activity_of({}, {0}, 5).kind, Activity::Kind::none);
  EXPECT_EQ(activity_of(working(), {0}, 105).kind, Activity::Kind::none) << "every lane is done";
}

TEST(Activity, IsTheActionThatRuns) {
  FlightRecord::View view = working();
  put(view, flight(InstructionKind::compute, Op::backward_input, 4, 3, -1, Lane::compute, 110));
  put(view, flight(InstructionKind::receive, Op::forward, 3, 4, 0, Lane::receive, 109));
  const Activity activity = activity_of(view, {4, 5}, 110.25);
  EXPECT_EQ(activity.text(), "is in I of micro-batch 3 of stage 4 for 0.2 s");
  EXPECT_FALSE(activity.waits_for_peer());
}

TEST(Activity, IsTheMessageThatWasPostedWhereNothingRuns) {
  FlightRecord::View view = working();
  put(view, flight(InstructionKind::compute, Op::forward, 5, 12, -1, Lane::compute, 0));
  put(view, flight(InstructionKind::receive, Op::forward, 4, 12, 1, Lane::receive, 110));
  put(view, flight(InstructionKind::send, Op::backward_input, 5, 2, 1, Lane::send, 105));
  const Activity activity = activity_of(view, {3, 4, 5}, 151);
  EXPECT_EQ(activity.text(), "waits for F of micro-batch 12 from rank 4 for 41 s");
  EXPECT_EQ(activity.peer, 4) << "a world rank";
}

TEST(Activity, IsASendWhereOnlyThatIsLeft) {
  FlightRecord::View view = working();
  put(view, flight(InstructionKind::send, Op::forward, 0, 7, 1, Lane::send, 105));
  EXPECT_EQ(activity_of(view, {0, 2}, 106).text(), "waits for rank 2 to take F of micro-batch 7 for 1.0 s");
}

TEST(Activity, OfAGpuIsNotSeen) {
  FlightRecord::View view = working();
  view.live = false;
  put(view, flight(InstructionKind::compute, Op::forward, 0, 0, -1, Lane::compute, 0));
  EXPECT_EQ(activity_of(view, {0}, 130).text(), "has its GPU at work for 30 s");
}

TEST(Activity, TimesAreShort) {
  EXPECT_EQ(seconds_text(0.84), "0.8 s");
  EXPECT_EQ(seconds_text(41.4), "41 s");
  EXPECT_EQ(seconds_text(200), "3 min 20 s");
  EXPECT_EQ(seconds_text(7260), "2 h 1 min");
}

}  // namespace
}  // namespace penstock::watchdog
