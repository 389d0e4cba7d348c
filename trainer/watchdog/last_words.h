#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "trainer/watchdog/progress.h"

namespace penstock::watchdog {

/// What a rank leaves behind when it is ended, or is asked where it is.
struct LastWords {
  std::filesystem::path run;  ///< the run's folder
  uint64_t attempt = 0;       ///< 0: the folder is not ours, and nothing is written there
  int rank = 0;
  std::string text;  ///< lines for people
};

/// RUN/flight/attempt-2-rank-00005.txt: `text`, the calls of all threads, and the executor's last
/// instructions. Its path; empty where it cannot be written, and then the calls are on standard error.
std::string write_flight_file(const LastWords& words, const Progress& progress);

/// A line each in the rank's log.
void write_log(const LastWords& words);

/// What a run has come to, where the training itself cannot say so.
struct Outcome {
  const char* event = "watchdog";  ///< in events.jsonl
  int code = 0;                    ///< the exit code
  std::string reason;
  std::vector<std::string> ranks;  ///< what is known of each
};

/// An event, and status.json, in which state, code, reason and time are replaced; neither where the attempt
/// has ended already, as status.json says.
void write_outcome(const LastWords& words, int64_t step, const Outcome& outcome);

}  // namespace penstock::watchdog
