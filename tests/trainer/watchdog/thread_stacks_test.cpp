#include "trainer/watchdog/thread_stacks.h"

#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

namespace penstock::watchdog {

/// Found by its name in the program's table.
__attribute__((noinline)) void a_function_that_waits(const std::atomic<bool>& ends) {
  while (!ends.load()) std::this_thread::yield();
}

namespace {

TEST(ThreadStacks, NameWhatEveryOtherThreadIsIn) {
  prepare_thread_stacks();
  std::atomic<bool> ends{false};
  std::atomic<bool> there{false};
  std::thread waits([&] {
    pthread_setname_np(pthread_self(), "one who waits");
    there = true;
    a_function_that_waits(ends);
  });
  while (!there) std::this_thread::yield();
  const std::string text = thread_stacks();
  ends = true;
  waits.join();
  EXPECT_THAT(text, testing::HasSubstr("\"one who waits\""));
  EXPECT_THAT(text, testing::HasSubstr("a_function_that_waits"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("did not answer")));
}

}  // namespace
}  // namespace penstock::watchdog
