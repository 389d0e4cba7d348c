#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "parallel/runtime/flight_record.h"
#include "trainer/watchdog/phase.h"

namespace penstock::watchdog {

/// Where a rank is, as its training thread says; the watchdog's thread reads it. Saying costs a few relaxed
/// stores.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;
  Progress();

  /// A part of the start begins, which has the limit to itself. `part`: a literal, as "reading the
  /// checkpoint".
  void starts(const char* part);
  /// Step number `step` (1…) begins, or ended after so many seconds.
  void begin_step(int64_t step);
  void end_step(double seconds);
  /// The run goes on in another arrangement, whose steps may take another time.
  void rearranged();
  /// All steps are done; what is left is to say so.
  void ends();

  /// From its construction to its end the rank is in `phase`; then again in the one before, whose time begins
  /// anew.
  class Doing {
   public:
    Doing(Progress& progress, Phase phase);
    ~Doing();
    Doing(const Doing&) = delete;
    Doing& operator=(const Doing&) = delete;

   private:
    Progress& progress_;
    Phase before_;
  };

  /// The engine's record, the number of its first stage, and the world ranks of its pipeline.
  void follow(std::shared_ptr<const runtime::FlightRecord> flights, int stage, std::vector<int> pipeline);
  /// The run folder is ours, by this attempt: failures may be written there.
  void holds_folder(uint64_t attempt) { attempt_.store(attempt, std::memory_order_relaxed); }

  struct View {
    Phase phase = Phase::start_up;
    const char* part = "";  ///< of the start
    int64_t step = 0;       ///< the one under way, or the last
    Clock::time_point since;
    bool first = true;
    double median_step = 0;  ///< seconds; 0: none yet
    uint64_t attempt = 0;    ///< 0: the run folder is not ours
  };
  View view() const;
  struct Engine {
    std::shared_ptr<const runtime::FlightRecord> flights;  ///< null: there is no engine yet
    int stage = -1;
    std::vector<int> pipeline;
  };
  Engine engine() const;

 private:
  static constexpr size_t kept_steps = 31;
  void enter(Phase phase);

  std::atomic<Phase> phase_{Phase::start_up};
  std::atomic<const char*> part_{"starting"};
  std::atomic<int64_t> step_{0};
  std::atomic<Clock::rep> since_;
  std::atomic<bool> first_{true};
  std::array<std::atomic<double>, kept_steps> seconds_{};
  std::atomic<size_t> steps_{0};
  std::atomic<uint64_t> attempt_{0};
  mutable std::mutex mutex_;
  Engine engine_;
};

}  // namespace penstock::watchdog
