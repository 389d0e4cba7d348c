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

/// A list on its way: enqueued from `begun` on, the last `first` of it before the others (StepList::gathers).
/// `stamps`: by Instruction::step; of one step the first.
struct EnqueuedList {
  std::span<const Step> steps;
  std::array<std::span<const Stamp>, 2> stamps;
  double begun = 0;
  size_t first = 0;
};

/// What an executor did last and does now, for another thread to look at while it works, or no longer does.
/// The executor pays a lock and the copying of a finished list's end, once a list.
class FlightRecord {
 public:
  /// Finished instructions that are kept.
  static constexpr size_t kept = 1000;
  /// Lists that may be under way where steps overlap: two steps', and what drains the second.
  static constexpr size_t most_lists = 3;

  /// `live`: whether stamps are there as soon as the work is done, and not only once the host has waited.
  explicit FlightRecord(bool live) : live_(live) {
    ended_.reserve(kept);
    lists_.reserve(most_lists);
  }

  /// The executor enqueues this list; it and its stamps stay until end(). `opens`: those before it are done.
  /// Else all but the last two of them are.
  void begin(const EnqueuedList& list, bool opens = true);
  /// What was begun is done or given up; nothing happens where nothing was.
  void end();

  /// By lane: the instruction that has begun and not ended, else the first that has not; empty: it is done.
  struct View {
    bool working = false;  ///< a list was begun and not ended
    bool live = false;     ///< whether `heads` can be believed
    double begun = 0;      ///< of the first list that is not done, or the last one
    std::array<std::optional<Flight>, lane_count> heads;
  };
  View now() const;
  /// The last instructions that ended, at most `kept`, oldest first; those of lists under way included.
  std::vector<Flight> lately() const;

 private:
  /// The list's place-th that is enqueued.
  static Flight flight(const EnqueuedList& list, size_t place);
  /// The first `count` lists are done, or given up.
  void drop(size_t count);

  const bool live_;
  mutable std::mutex mutex_;
  std::vector<EnqueuedList> lists_;
  std::vector<Flight> ended_;  ///< a ring
  size_t next_ = 0;
};

}  // namespace penstock::runtime
