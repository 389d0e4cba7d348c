#include "trainer/accounting/standstill_watch.h"

namespace penstock::accounting {

StandstillWatch::StandstillWatch(const Clock& clock)
    : clock_(clock), woken_(clock.now()), thread_([this] { run(); }) {}

StandstillWatch::~StandstillWatch() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void StandstillWatch::run() {
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, period, [this] { return ends_; })) {
    const double now = clock_.now();
    keep(since_last(now), kept_, next_);
    woken_ = now;
  }
}

Interval StandstillWatch::since_last(double now) const {
  const double due = woken_ + std::chrono::duration<double>(period).count();
  return now > due + late ? Interval{due, now} : Interval{};
}

void StandstillWatch::keep(const Interval& interval, Intervals& kept, size_t& next) const {
  if (interval.end > interval.begin) kept[next++ % kept.size()] = interval;
}

StandstillWatch::Intervals StandstillWatch::lately() const {
  const std::lock_guard lock(mutex_);
  Intervals kept = kept_;
  size_t next = next_;
  keep(since_last(clock_.now()), kept, next);
  return kept;
}

}  // namespace penstock::accounting
