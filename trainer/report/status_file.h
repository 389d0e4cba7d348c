#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "trainer/report/append_file.h"

namespace penstock::report {

/// What a run is doing, for scripts and schedulers. A batch script asks `needs_resume`, not the exit code.
struct Status {
  enum class State { starting, running, finished, stopped, failed };
  State state = State::starting;
  int64_t attempt = 1;
  int64_t step = 0;
  int64_t total_steps = 0;
  std::optional<double> loss;
  std::optional<double> seconds_left;
  std::optional<int64_t> last_checkpoint;  ///< its step
  std::optional<int> exit_code;            ///< once the run has ended
  std::string reason;                      ///< why it stopped or failed
};

/// status.json: always a complete JSON object, `"schema": 1`, renamed into place. Written when the state or
/// the last checkpoint changes, and else every ten seconds at most. What the job leaves behind is made
/// durable, which costs tens of milliseconds; while it runs nobody waits for the disk.
class StatusFile {
 public:
  using Clock = std::chrono::steady_clock;
  StatusFile(
      std::string path, MessageSink sink,
      std::function<Clock::time_point()> now = [] { return Clock::now(); });

  /// Failures to write go to the sink, the first of a series only.
  void update(const Status& status);

 private:
  std::string path_;
  MessageSink sink_;
  std::function<Clock::time_point()> now_;
  std::optional<Clock::time_point> written_;
  Status::State state_ = Status::State::starting;
  std::optional<int64_t> last_checkpoint_;
  bool failing_ = false;
};

}  // namespace penstock::report
