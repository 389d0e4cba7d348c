#include "trainer/watchdog/progress.h"

#include <algorithm>
#include <utility>

namespace penstock::watchdog {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;

}  // namespace

Progress::Progress() : since_(Clock::now().time_since_epoch().count()) {}

void Progress::enter(Phase phase) {
  phase_.store(phase, relaxed);
  since_.store(Clock::now().time_since_epoch().count(), relaxed);
}

void Progress::starts(const char* part) {
  part_.store(part, relaxed);
  enter(Phase::start_up);
}

void Progress::begin_step(int64_t step) {
  step_.store(step, relaxed);
  enter(Phase::step);
}

void Progress::end_step(double seconds) {
  const size_t done = steps_.load(relaxed);
  // The first one made plans and touched memory: it says little of the others.
  if (first_.load(relaxed)) {
    first_.store(false, relaxed);
    if (done == 0) return;
  }
  seconds_[done % kept_steps].store(seconds, relaxed);
  steps_.store(done + 1, relaxed);
}

void Progress::rearranged() {
  first_.store(true, relaxed);
  steps_.store(0, relaxed);
}

void Progress::ends() {
  enter(Phase::ending);
}

Progress::Doing::Doing(Progress& progress, Phase phase)
    : progress_(progress), before_(progress.phase_.load(relaxed)) {
  progress_.enter(phase);
}

Progress::Doing::~Doing() {
  progress_.enter(before_);
}

void Progress::follow(std::shared_ptr<const runtime::FlightRecord> flights, int stage,
                      std::vector<int> pipeline) {
  const std::lock_guard lock(mutex_);
  engine_ = {std::move(flights), stage, std::move(pipeline)};
}

Progress::View Progress::view() const {
  View view;
  view.phase = phase_.load(relaxed);
  view.part = part_.load(relaxed);
  view.step = step_.load(relaxed);
  view.since = Clock::time_point(Clock::duration(since_.load(relaxed)));
  view.first = first_.load(relaxed);
  view.attempt = attempt_.load(relaxed);
  std::vector<double> seconds;
  for (size_t i = 0; i < std::min(steps_.load(relaxed), kept_steps); ++i)
    seconds.push_back(seconds_[i].load(relaxed));
  if (!seconds.empty()) {
    const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
    std::nth_element(seconds.begin(), middle, seconds.end());
    view.median_step = *middle;
  }
  return view;
}

Progress::Engine Progress::engine() const {
  const std::lock_guard lock(mutex_);
  return engine_;
}

}  // namespace penstock::watchdog
