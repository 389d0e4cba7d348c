#include "parallel/runtime/flight_record.h"

#include <algorithm>
#include <atomic>

#include "parallel/runtime/executor.h"

namespace penstock::runtime {
namespace {

// Streams write stamps while we look.
double read(const double& stamp) {
  return std::atomic_ref<double>(const_cast<double&>(stamp)).load(std::memory_order_relaxed);
}

}  // namespace

void FlightRecord::begin(std::span<const Step> steps, std::span<const Stamp> stamps, double now,
                         size_t first) {
  end();
  const std::lock_guard lock(mutex_);
  steps_ = steps;
  stamps_ = stamps;
  first_ = first;
  begun_ = now;
}

void FlightRecord::end() {
  const std::lock_guard lock(mutex_);
  for (size_t i = stamps_.size() - std::min(kept, stamps_.size()); i < stamps_.size(); ++i) {
    const Flight made = flight(i);
    if (made.end == 0) continue;
    if (ended_.size() < kept) {
      ended_.push_back(made);
    } else {
      ended_[next_++ % kept] = made;
    }
  }
  steps_ = {};
  stamps_ = {};
}

// What an earlier list left in the stamps counts as not there.
Flight FlightRecord::flight(size_t place) const {
  const size_t index = (place + steps_.size() - first_) % steps_.size();
  const double start = read(stamps_[index].start);
  const double end = read(stamps_[index].end);
  return {steps_[index].instruction, steps_[index].lane, start < begun_ ? 0 : start, end < begun_ ? 0 : end};
}

FlightRecord::View FlightRecord::now() const {
  const std::lock_guard lock(mutex_);
  View view;
  view.live = live_;
  view.working = !stamps_.empty();
  view.begun = begun_;
  for (size_t i = 0; i < stamps_.size(); ++i) {
    const Flight one = flight(i);
    std::optional<Flight>& head = view.heads[static_cast<size_t>(one.lane)];
    // Not every lane takes its instructions in the list's order: what has begun is where it is.
    if (one.end == 0 && (!head || (head->start == 0 && one.start > 0))) head = one;
  }
  return view;
}

std::vector<Flight> FlightRecord::lately() const {
  const std::lock_guard lock(mutex_);
  std::vector<Flight> all(ended_);
  std::rotate(all.begin(),
              all.begin() + static_cast<std::ptrdiff_t>(ended_.empty() ? 0 : next_ % ended_.size()),
              all.end());
  for (size_t i = 0; i < stamps_.size(); ++i) {
    if (const Flight one = flight(i); one.end != 0) all.push_back(one);
  }
  std::stable_sort(all.begin(), all.end(), [](const Flight& a, const Flight& b) { return a.end < b.end; });
  if (all.size() > kept) all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(kept));
  return all;
}

}  // namespace penstock::runtime
