#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainer/watchdog/heartbeat.h"

namespace penstock::watchdog {

/// What a rank knows of all ranks: what each said last, and when. Times are seconds on one clock of the
/// caller, which says when it stood still itself.
class RollCall {
 public:
  /// A rank that was not heard of for so long is silent: it says something every second.
  static constexpr double silent_after = 5;

  explicit RollCall(int ranks) : entries_(static_cast<size_t>(ranks)) {}

  int ranks() const { return static_cast<int>(entries_.size()); }
  /// `ago`: how old it is already.
  void heard(const Heartbeat& beat, double now, double ago = 0);
  void introduce(int rank, const std::string& place, double now);
  /// Its connection ended without a word; or it has said that it leaves.
  void gone(int rank);
  void left(int rank);
  bool is_gone(int rank) const { return entry(rank).gone; }
  bool has_left(int rank) const { return entry(rank).left; }
  /// We stood still ourselves for so long: nobody else is silent for that.
  void stood_still(double seconds);

  const std::optional<Heartbeat>& last(int rank) const { return entry(rank).beat; }
  /// Seconds since anything was heard of it; empty: nothing ever was.
  std::optional<double> silence(int rank, double now) const;
  /// "rank 3 (process 17 on host a)".
  std::string name(int rank) const;
  /// The lowest rank that is there, and not silent.
  int lowest_living(double now) const;

  /// Who holds up everybody, in words, as far as it can be told: ranks that are gone, that are silent, that
  /// disagree where they are, the end of the chain of those who wait for one another, or its circle. Empty:
  /// it cannot. The one who asks counts as heard.
  std::string culprit(double now) const;
  /// "rank 5, stage 5, step 18: waits for F of micro-batch 12 from rank 4 for 41 s; rank 4 is in I of
  /// micro-batch 3 of stage 4 for 40 s; heard 0.8 s ago".
  std::string where(const Heartbeat& own, double now) const;

 private:
  struct Entry {
    std::optional<Heartbeat> beat;
    std::optional<double> at;
    std::string place;
    bool gone = false;
    bool left = false;
  };
  const Entry& entry(int rank) const { return entries_[static_cast<size_t>(rank)]; }
  Entry& entry(int rank) { return entries_[static_cast<size_t>(rank)]; }
  std::string disagreement() const;
  std::string chain_end() const;

  std::vector<Entry> entries_;
};

}  // namespace penstock::watchdog
