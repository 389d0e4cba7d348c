#include "trainer/watchdog/heartbeat.h"

#include <gtest/gtest.h>

namespace penstock::watchdog {
namespace {

std::string sent(const Message& message) {
  std::string line = line_of(message);
  EXPECT_EQ(line.find('\n'), line.size() - 1) << "one line";
  line.pop_back();
  return line;
}

TEST(Message, ComesBackAsItWasSent) {
  Message message;
  message.beat = {5, Phase::evaluation, "a part", 100, 3.5, 2, {Activity::Kind::sends, "B", 2, 7, 4, 1.25}};
  message.heard = 0.75;
  Message read;
  ASSERT_TRUE(read_message(sent(message), read));
  EXPECT_EQ(read.kind, Message::Kind::beat);
  EXPECT_EQ(read.beat, message.beat);
  EXPECT_EQ(read.heard, 0.75);

  message = {};
  message.kind = Message::Kind::failed;
  message.rank = 3;
  message.code = 6;
  message.text = "no space\nleft \xff";
  ASSERT_TRUE(read_message(sent(message), read));
  EXPECT_EQ(read.kind, Message::Kind::failed);
  EXPECT_EQ(read.rank, 3);
  EXPECT_EQ(read.code, 6);
  EXPECT_EQ(read.text.substr(0, 14), "no space\nleft ");
}

TEST(Message, WhatIsNoneIsRefused) {
  Message read;
  for (const char* line :
       {"", "GET / HTTP/1.1", "{}", "{\"kind\": 99}", "{\"kind\": 1}", "[1]", "{\"kind\": \"x\"}"})
    EXPECT_FALSE(read_message(line, read)) << line;
}

TEST(Heartbeat, IsSaidInWords) {
  Heartbeat beat;
  beat.part = "reading the checkpoint";
  beat.seconds = 12;
  EXPECT_EQ(beat.text(), "is starting (reading the checkpoint) for 12 s");
  beat.phase = Phase::save;
  beat.step = 100;
  EXPECT_EQ(beat.text(), "saves step 100 for 12 s");
  beat.phase = Phase::evaluation;
  beat.activity = {Activity::Kind::receives, "F", 0, 1, 3, 11};
  EXPECT_EQ(beat.text(),
            "is in the evaluation after step 100 for 12 s: it waits for F of micro-batch 1 from "
            "rank 3 for 11 s");
}

}  // namespace
}  // namespace penstock::watchdog
