#include "kernels/cpu/fibers.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu/wait_point.h"
#include "kernels/device/error.h"

namespace penstock::cpu {
namespace {

using Bodies = std::vector<std::function<void()>>;

/// Runs the bodies on fibers; where a sanitizer forbids them nothing is to be tested, and run_inproc uses
/// threads.
bool run(const Bodies& bodies) {
  if (!Fibers::supported()) return false;
  Fibers::run(bodies);
  return true;
}

TEST(Fibers, TakeTurnsWhereTheyWait) {
  std::string order;
  std::atomic<int> turn{0};
  WaitPoint changed;
  Bodies bodies;
  for (int self = 0; self < 3; ++self) {
    bodies.emplace_back([&, self] {
      for (int round = 0; round < 2; ++round) {
        changed.wait([&] { return turn.load() % 3 == self; });
        order += static_cast<char>('a' + self);
        turn.fetch_add(1);
        changed.notify_all();
      }
    });
  }
  const bool ran = run(bodies);
  EXPECT_EQ(order, ran ? "abcabc" : "");
  EXPECT_EQ(Fibers::current(), nullptr);
}

TEST(Fibers, KeepTheirOwnExceptions) {
  // Each is inside of a handler while the other throws and catches.
  std::vector<std::string> caught(2);
  std::vector<int> uncaught(2, -1);
  std::atomic<int> inside{0};
  WaitPoint changed;
  Bodies bodies;
  for (size_t self = 0; self < 2; ++self) {
    bodies.emplace_back([&, self] {
      try {
        throw std::runtime_error(self == 0 ? "first" : "second");
      } catch (const std::exception& outer) {
        inside.fetch_add(1);
        changed.wait([&] { return inside.load() >= 2; });
        try {
          throw std::logic_error("inner");
        } catch (const std::logic_error&) {
          inside.fetch_add(1);
          changed.wait([&] { return inside.load() >= 4; });
        }
        const std::exception_ptr current = std::current_exception();
        try {
          std::rethrow_exception(current);
        } catch (const std::exception& again) {
          caught[self] = std::string(outer.what()) + " " + again.what();
        }
      }
      uncaught[self] = std::uncaught_exceptions();
    });
  }
  if (run(bodies)) {
    EXPECT_EQ(caught, (std::vector<std::string>{"first first", "second second"}));
    EXPECT_EQ(uncaught, (std::vector{0, 0}));
  } else {
    EXPECT_EQ(inside.load(), 0);
  }
}

TEST(Fibers, WaitForOtherThreads) {
  std::atomic<bool> there{false};
  WaitPoint changed;
  bool seen = false;
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    there.store(true);
    changed.notify_all();
  });
  const bool ran = run({[&] {
    changed.wait([&] { return there.load(); });
    seen = there.load();
  }});
  other.join();
  EXPECT_EQ(seen, ran);
}

TEST(Fibers, AreNotNested) {
  bool refused = false;
  const bool ran = run({[&] {
    try {
      Fibers::run(Bodies{[] {}});
    } catch (const UsageError&) {
      refused = true;
    }
  }});
  EXPECT_EQ(refused, ran);
}

}  // namespace
}  // namespace penstock::cpu
