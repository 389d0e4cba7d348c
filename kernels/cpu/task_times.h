#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace penstock::cpu {

/// How long tasks of one name took, and how many there were.
struct TaskTime {
  std::string name;
  uint64_t count = 0;
  double seconds = 0;
};

/// While one lives, the real time of every task of every stream of the processor is added up by the task's
/// name: a benchmark says by it where a step's time goes. Without one a task costs a look at a flag. One at a
/// time.
class TaskTimes {
 public:
  TaskTimes();
  ~TaskTimes();
  TaskTimes(const TaskTimes&) = delete;
  TaskTimes& operator=(const TaskTimes&) = delete;

  /// What was added up since the last call (or the start), the longest first.
  std::vector<TaskTime> take();

  static bool wanted() { return wanted_.load(std::memory_order_relaxed); }
  /// By streams. `name` is a literal.
  static void add(const char* name, double seconds);

 private:
  static std::atomic<bool> wanted_;
};

}  // namespace penstock::cpu
