#pragma once

#include <string>
#include <vector>

#include "parallel/runtime/flight_record.h"

namespace penstock::watchdog {

/// What a rank does within a step, in a few numbers that travel.
struct Activity {
  enum class Kind { none, computes, receives, sends, reduces, sums_tied, updates, gathers, waits, unseen };
  Kind kind = Kind::none;
  std::string op;  ///< "F", "I", "W", "B": of the action, or of the one whose result travels
  int stage = -1;  ///< of that action
  int micro_batch = -1;
  int peer = -1;       ///< world rank at the other end; -1: none, or all
  double seconds = 0;  ///< for how long

  bool operator==(const Activity&) const = default;

  /// Whether it is another rank that it stands still for.
  bool waits_for_peer() const { return peer >= 0; }
  /// "is in I of micro-batch 3 of stage 4 for 0.3 s", "waits for F of micro-batch 12 from rank 4 for 41 s".
  std::string text() const;
};

/// What an executor is at: the action that runs; where none does, the message or sum that has begun and not
/// ended. `pipeline`: world ranks, in pipeline order. `now`: on the device's clock.
Activity activity_of(const runtime::FlightRecord::View& view, const std::vector<int>& pipeline, double now);

/// "0.3 s", "41 s", "3 min 20 s".
std::string seconds_text(double seconds);

/// A line an instruction that ended, for the flight record: start and end in seconds before `now`.
std::string flight_lines(const std::vector<runtime::Flight>& flights, double now);

}  // namespace penstock::watchdog
