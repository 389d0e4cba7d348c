#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace penstock::watchdog {

/// While it lives, something must come to its end that cannot be given up: a library that connects the ranks.
/// Where it does not in time, the process says so, with the calls of its threads, and leaves with
/// ExitCode::watchdog.
class StartLimit {
 public:
  /// `what`: "MPI has not connected the ranks"; `who`: "rank 2".
  StartLimit(double seconds, std::string who, std::string what);
  ~StartLimit();
  StartLimit(const StartLimit&) = delete;
  StartLimit& operator=(const StartLimit&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace penstock::watchdog
