#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "trainer/budget/controller.h"

namespace penstock::budget {

/// A Controller that thinks on a thread of its own, at a low priority: no step waits for a plan. Its
/// verdicts come when they are there; steps that ran meanwhile, before one was carried out, are of the old
/// arrangement and are not shown to it.
///
/// The steps of a window are handed over at once, so that the thread wakes up once a window.
class BackgroundController {
 public:
  /// `saved`: what an earlier part of the run left, as Controller::restore() takes it; null: nothing.
  BackgroundController(ControllerOptions options, const nlohmann::json& saved);
  /// Waits for the thought that is under way.
  ~BackgroundController();
  BackgroundController(const BackgroundController&) = delete;
  BackgroundController& operator=(const BackgroundController&) = delete;

  /// A finished step. Returns at once.
  void observe(StepObservation step);
  /// Controller::by_hand(), as soon as no verdict is waiting to be carried out. Returns at once.
  void by_hand(std::string request, int64_t step);

  struct News {
    std::vector<BudgetEvent> events;
    std::optional<Arrangement> arrangement;     ///< to be carried out, then: carried_out() or refused()
    std::vector<AlarmWatch::Reading> readings;  ///< of the latest window, if there is a new one
  };
  /// What came up since the last call. Returns at once. Of a verdict the arrangement is told once.
  News news();
  /// Waits until nothing is left to think about, but no longer than `limit`.
  void wait(std::chrono::milliseconds limit = std::chrono::hours(1));

  /// The arrangement runs from the next step on; `limit`: as Controller::limit_memory().
  void carried_out(std::vector<int64_t> limit);
  std::vector<BudgetEvent> refused(int64_t step, const std::string& why);

  /// Controller::saved(), without waiting for a thought that is under way.
  nlohmann::json saved() const;

 private:
  struct Request {
    std::string text;
    int64_t step = 0;
  };
  bool has_work() const;
  void run();
  /// What there is to do, up to a verdict that has to be carried out first. The lock is held, but while the
  /// controller is at work.
  void think(std::unique_lock<std::mutex>& lock);
  void take(Verdict verdict);

  Controller controller_;  ///< the thread's, unless a verdict is waiting
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<StepObservation> steps_;
  std::deque<Request> requests_;
  size_t due_ = 0;  ///< so many steps are worth waking up for
  bool thinking_ = false;
  bool waiting_ = false;  ///< for a verdict to be carried out
  bool ending_ = false;
  News news_;
  nlohmann::json saved_;
  std::string failure_;
  std::thread thread_;
};

}  // namespace penstock::budget
