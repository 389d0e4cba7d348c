#pragma once

#include <atomic>
#include <mutex>
#include <string>

namespace penstock {

/// The first error of a stream's queued work, until it surfaces. It outlives the stream for those who report
/// to it from other threads.
class StreamFailure {
 public:
  /// The first one is kept.
  void fail(const std::string& task, const std::string& what);
  bool failed() const { return failed_.load(); }
  /// A task was queued behind the failed one, and does not run.
  void drop();
  /// "task "gemm" failed: K is 0 (2 tasks queued behind it were dropped)".
  std::string text() const;
  void clear();

 private:
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;
  std::string task_;
  std::string what_;
  int dropped_ = 0;
};

}  // namespace penstock
