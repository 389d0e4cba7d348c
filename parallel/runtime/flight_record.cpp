#include "parallel/runtime/flight_record.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "parallel/runtime/executor.h"

namespace penstock::runtime {
namespace {

// Streams write stamps while we look.
double read(const double& stamp) {
  return std::atomic_ref<double>(const_cast<double&>(stamp)).load(std::memory_order_relaxed);
}

}  // namespace

void FlightRecord::begin(const EnqueuedList& list, bool opens) {
  const std::lock_guard lock(mutex_);
  const size_t stay = opens ? 0 : most_lists - 1;
  if (lists_.size() > stay) drop(lists_.size() - stay);
  lists_.push_back(list);
}

void FlightRecord::end() {
  const std::lock_guard lock(mutex_);
  drop(lists_.size());
}

void FlightRecord::drop(size_t count) {
  for (size_t at = 0; at < count; ++at) {
    const EnqueuedList& list = lists_[at];
    const size_t steps = list.steps.size();
    for (size_t i = steps - std::min(kept, steps); i < steps; ++i) {
      const Flight made = flight(list, i);
      if (made.end == 0) continue;
      if (ended_.size() < kept) {
        ended_.push_back(made);
      } else {
        ended_[next_++ % kept] = made;
      }
    }
  }
  lists_.erase(lists_.begin(), lists_.begin() + static_cast<std::ptrdiff_t>(count));
}

// What an earlier list left in the stamps counts as not there.
Flight FlightRecord::flight(const EnqueuedList& list, size_t place) {
  const Step& step = list.steps[(place + list.steps.size() - list.first) % list.steps.size()];
  const Stamp& stamp = list.stamps[static_cast<size_t>(step.instruction.step)][step.stamp];
  const double start = read(stamp.start);
  const double end = read(stamp.end);
  return {step.named == nullptr ? step.instruction : *step.named, step.lane, start < list.begun ? 0 : start,
          end < list.begun ? 0 : end};
}

FlightRecord::View FlightRecord::now() const {
  const std::lock_guard lock(mutex_);
  View view;
  view.live = live_;
  view.working = !lists_.empty();
  if (view.working) view.begun = lists_.back().begun;
  bool done = true;
  for (const EnqueuedList& list : lists_) {
    for (size_t i = 0; i < list.steps.size(); ++i) {
      const Flight one = flight(list, i);
      if (one.end != 0) continue;
      if (std::exchange(done, false)) view.begun = list.begun;
      std::optional<Flight>& head = view.heads[static_cast<size_t>(one.lane)];
      // Not every lane takes its instructions in the list's order: what has begun is where it is.
      if (!head || (head->start == 0 && one.start > 0)) head = one;
    }
  }
  return view;
}

std::vector<Flight> FlightRecord::lately() const {
  const std::lock_guard lock(mutex_);
  std::vector<Flight> all(ended_);
  std::rotate(all.begin(),
              all.begin() + static_cast<std::ptrdiff_t>(ended_.empty() ? 0 : next_ % ended_.size()),
              all.end());
  for (const EnqueuedList& list : lists_) {
    for (size_t i = 0; i < list.steps.size(); ++i) {
      if (const Flight one = flight(list, i); one.end != 0) all.push_back(one);
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Flight& a, const Flight& b) { return a.end < b.end; });
  if (all.size() > kept) all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(kept));
  return all;
}

}  // namespace penstock::runtime
