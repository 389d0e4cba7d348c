#pragma once

#include <cstdint>
#include <string>

#include "trainer/watchdog/activity.h"
#include "trainer/watchdog/phase.h"

namespace penstock::watchdog {

/// What a rank says of itself once a second.
struct Heartbeat {
  int rank = 0;
  Phase phase = Phase::start_up;
  std::string part;    ///< of the start
  int64_t step = 0;    ///< the one under way, or the last
  double seconds = 0;  ///< in the phase, or the part of the start
  int stage = -1;      ///< its first; −1: it has none yet
  Activity activity;

  bool operator==(const Heartbeat&) const = default;

  /// "waits for F of micro-batch 12 from rank 4 for 41 s", "is in the evaluation after step 100 for 3.0 s:
  /// …".
  std::string text() const;
};

/// A message of the control channel: one line.
struct Message {
  enum class Kind {
    hello,    ///< the first of a connection: who it is
    beat,     ///< a heartbeat, the sender's or another rank's that is passed on
    expired,  ///< to rank 0: our time limit is over; `text` says which
    failed,   ///< a rank leaves with an error, for which others may not wait; passed on by rank 0
    leave,    ///< to rank 0: we were asked to stop in the start, and hang there
    verdict,  ///< of rank 0: everybody leaves now with `code`; `text` says why
    bye       ///< the sender leaves, and all is well
  };
  Kind kind = Kind::beat;
  Heartbeat beat;
  double heard = 0;   ///< beat that is passed on: seconds ago
  int rank = -1;      ///< hello, failed: whose
  int code = 0;       ///< failed, verdict: an exit code
  std::string text;   ///< failed, verdict, expired, leave: why; hello: the meeting's token
  std::string place;  ///< hello: "process 123 on host a"
};

/// One line, with its end; and back: false for what is none.
std::string line_of(const Message& message);
bool read_message(const std::string& line, Message& message);

}  // namespace penstock::watchdog
