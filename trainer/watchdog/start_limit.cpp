#include "trainer/watchdog/start_limit.h"

#include <chrono>
#include <cstdio>
#include <utility>

#include <unistd.h>

#include "trainer/job/exit_code.h"
#include "trainer/watchdog/activity.h"
#include "trainer/watchdog/thread_stacks.h"

namespace penstock::watchdog {

StartLimit::StartLimit(double seconds, std::string who, std::string what) {
  prepare_thread_stacks();
  thread_ = std::thread([this, seconds, who = std::move(who), what = std::move(what)] {
    std::unique_lock lock(mutex_);
    if (ended_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return ends_; })) return;
    std::fprintf(
        stderr,
        "penstock: watchdog: %s: %s within %s (watchdog.start_s): is every rank there, and can they reach "
        "one another? Calls of all threads:\n%s",
        who.c_str(), what.c_str(), seconds_text(seconds).c_str(), thread_stacks().c_str());
    _exit(static_cast<int>(ExitCode::watchdog));
  });
}

StartLimit::~StartLimit() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

}  // namespace penstock::watchdog
