#include "trainer/budget/background_controller.h"

#include <exception>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

namespace penstock::budget {

namespace {

// Ranks compute meanwhile. On Linux a thread has a priority of its own; where it may not be lowered, it is
// not.
void step_back() {
  constexpr int low = 10;
  [[maybe_unused]] const int refused = setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), low);
}

}  // namespace

BackgroundController::BackgroundController(ControllerOptions options, const nlohmann::json& saved)
    : controller_(std::move(options)) {
  if (!saved.is_null()) controller_.restore(saved);
  due_ = static_cast<size_t>(controller_.missing());
  saved_ = controller_.saved();
  thread_ = std::thread([this] {
    step_back();
    run();
  });
}

BackgroundController::~BackgroundController() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool BackgroundController::has_work() const {
  return failure_.empty() && !waiting_ && (!requests_.empty() || (!steps_.empty() && steps_.size() >= due_));
}

void BackgroundController::observe(StepObservation step) {
  const std::lock_guard lock(mutex_);
  if (waiting_ || !failure_.empty()) return;
  steps_.push_back(std::move(step));
  if (has_work()) changed_.notify_all();
}

void BackgroundController::by_hand(std::string request, int64_t step) {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) {
    requests_.push_back({std::move(request), step});
    changed_.notify_all();
    return;
  }
  news_.events.push_back({"budget_refused",
                          step,
                          {{"request", request}, {"why", failure_}},
                          fmt::format("budget: \"{}\" cannot be done: {}\n", request, failure_)});
}

void BackgroundController::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || has_work(); });
    if (ending_) return;
    thinking_ = true;
    try {
      think(lock);
    } catch (const std::exception& error) {
      if (!lock.owns_lock()) lock.lock();
      failure_ = error.what();
      news_.events.push_back({"budget_failed",
                              0,
                              {{"why", failure_}},
                              fmt::format("budget: it watches no longer: {}\n", failure_)});
    }
    saved_ = controller_.saved();
    due_ = static_cast<size_t>(controller_.missing());
    thinking_ = false;
    changed_.notify_all();
  }
}

void BackgroundController::think(std::unique_lock<std::mutex>& lock) {
  const auto unlocked = [&](auto&& work) {
    lock.unlock();
    Verdict verdict = work();
    lock.lock();
    take(std::move(verdict));
  };
  const std::vector<StepObservation> steps = std::exchange(steps_, {});
  for (const StepObservation& step : steps) {
    if (waiting_) break;  // it ran as before
    unlocked([&] { return controller_.observe(step); });
  }
  if (!waiting_ && !requests_.empty()) {
    const Request request = std::move(requests_.front());
    requests_.pop_front();
    unlocked([&] { return controller_.by_hand(request.text, request.step); });
  }
  if (waiting_) steps_.clear();
}

void BackgroundController::take(Verdict verdict) {
  std::move(verdict.events.begin(), verdict.events.end(), std::back_inserter(news_.events));
  if (!verdict.readings.empty()) news_.readings = std::move(verdict.readings);
  if (!verdict.arrangement) return;
  news_.arrangement = std::move(verdict.arrangement);
  waiting_ = true;
}

BackgroundController::News BackgroundController::news() {
  const std::lock_guard lock(mutex_);
  // A verdict is complete once its thought is.
  if (thinking_) return {};
  return std::exchange(news_, {});
}

void BackgroundController::wait(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [this] { return !thinking_ && !has_work(); });
}

void BackgroundController::carried_out(std::vector<int64_t> limit) {
  const std::lock_guard lock(mutex_);
  controller_.limit_memory(std::move(limit));
  waiting_ = false;
  changed_.notify_all();
}

std::vector<BudgetEvent> BackgroundController::refused(int64_t step, const std::string& why) {
  const std::lock_guard lock(mutex_);
  std::vector<BudgetEvent> events = controller_.refused(step, why);
  saved_ = controller_.saved();
  due_ = static_cast<size_t>(controller_.missing());
  waiting_ = false;
  changed_.notify_all();
  return events;
}

nlohmann::json BackgroundController::saved() const {
  const std::lock_guard lock(mutex_);
  return saved_;
}

}  // namespace penstock::budget
