#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace penstock {

/// Runs a command of the user's beside the training: nobody waits for it, and it has only so long.
class AlarmCommand {
 public:
  using Environment = std::vector<std::pair<std::string, std::string>>;
  /// Told why a command could not be started, or how it ended if not well. Called from any thread.
  using Sink = std::function<void(const std::string& what)>;

  /// `command` goes to `/bin/sh -c`, in a session of its own, without input. What takes longer than `limit`
  /// is killed, with all that it started.
  AlarmCommand(std::string command, std::chrono::milliseconds limit, Sink sink);
  /// Waits for what is running as long as its limit allows, but no longer than `grace`.
  ~AlarmCommand();
  AlarmCommand(const AlarmCommand&) = delete;
  AlarmCommand& operator=(const AlarmCommand&) = delete;

  /// Starts it with these variables beside the process's own. Returns at once.
  void run(const Environment& environment);

  static constexpr std::chrono::seconds usual_limit{60};
  static constexpr std::chrono::seconds grace{5};

 private:
  void watch(int process, std::chrono::steady_clock::time_point deadline);

  std::string command_;
  std::chrono::milliseconds limit_;
  Sink sink_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point last_;  ///< nothing may run longer
  std::list<std::thread> watchers_;
};

}  // namespace penstock
