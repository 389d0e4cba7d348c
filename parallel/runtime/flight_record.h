#pragma once

#include <array>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "parallel/runtime/step_list.h"

namespace penstock::runtime {

struct Stamp;

/// An instruction that ran, runs, or is the next of its lane. Seconds on the device's clock; 0: not yet.
struct Flight {
  schedule::Instruction instruction;
  Lane lane = Lane::compute;
  double start = 0;
  double end = 0;
};

/// What an executor did last and does now, for another thread to look at while it works, or no longer does.
/// The executor pays a lock and the copying of a finished list's end, once a list.
class FlightRecord {
 public:
  /// Finished instructions that are kept.
  static constexpr size_t kept = 1000;

  /// `live`: whether stamps are there as soon as the work is done, and not only once the host has waited.
  explicit FlightRecord(bool live) : live_(live) { ended_.reserve(kept); }

  /// The executor enqueues this list, at `now`, the last `first` of it before the others (StepList::gathers);
  /// it and its stamps stay until end().
  void begin(std::span<const Step> steps, std::span<const Stamp> stamps, double now, size_t first = 0);
  /// The list that was begun is done or given up; nothing happens where none was.
  void end();

  /// By lane: the instruction that has begun and not ended, else the first that has not; empty: it is done.
  struct View {
    bool working = false;  ///< a list was begun and not ended
    bool live = false;     ///< whether `heads` can be believed
    double begun = 0;
    std::array<std::optional<Flight>, lane_count> heads;
  };
  View now() const;
  /// The last instructions that ended, at most `kept`, oldest first; those of the list under way included.
  std::vector<Flight> lately() const;

 private:
  /// The place-th that is enqueued.
  Flight flight(size_t place) const;

  const bool live_;
  mutable std::mutex mutex_;
  std::span<const Step> steps_;
  std::span<const Stamp> stamps_;
  size_t first_ = 0;
  double begun_ = 0;
  std::vector<Flight> ended_;  ///< a ring
  size_t next_ = 0;
};

}  // namespace penstock::runtime
