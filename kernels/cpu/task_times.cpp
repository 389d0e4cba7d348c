#include "kernels/cpu/task_times.h"

#include <algorithm>
#include <map>
#include <mutex>

namespace penstock::cpu {
namespace {

struct Sums {
  std::mutex mutex;
  std::map<std::string, TaskTime, std::less<>> by_name;
};

Sums& sums() {
  static Sums all;
  return all;
}

}  // namespace

std::atomic<bool> TaskTimes::wanted_{false};

TaskTimes::TaskTimes() {
  take();
  wanted_.store(true);
}

TaskTimes::~TaskTimes() {
  wanted_.store(false);
}

std::vector<TaskTime> TaskTimes::take() {
  std::vector<TaskTime> times;
  {
    const std::lock_guard lock(sums().mutex);
    for (auto& [name, time] : sums().by_name) times.push_back(std::move(time));
    sums().by_name.clear();
  }
  std::stable_sort(times.begin(), times.end(),
                   [](const TaskTime& a, const TaskTime& b) { return a.seconds > b.seconds; });
  return times;
}

void TaskTimes::add(const char* name, double seconds) {
  const std::lock_guard lock(sums().mutex);
  auto found = sums().by_name.find(name);
  if (found == sums().by_name.end()) found = sums().by_name.emplace(name, TaskTime{name, 0, 0}).first;
  ++found->second.count;
  found->second.seconds += seconds;
}

}  // namespace penstock::cpu
