#pragma once

#include <memory>
#include <string>

namespace penstock {

/// A named stretch of a host thread's work, as profilers show it. Without one attached it costs a few
/// instructions; never an allocation.
class ProfilerRange {
 public:
  virtual ~ProfilerRange() = default;
  virtual void begin() = 0;
  /// Ends what this thread began last.
  virtual void end() = 0;
};

/// What a Device is, too, if its kind has such profilers (dynamic_cast).
class ProfilerRanges {
 public:
  virtual ~ProfilerRanges() = default;
  virtual std::unique_ptr<ProfilerRange> create_range(const std::string& name) = 0;
};

/// Begins a range and ends it with the scope; null: nothing.
class InProfilerRange {
 public:
  explicit InProfilerRange(ProfilerRange* range) : range_(range) {
    if (range_ != nullptr) range_->begin();
  }
  ~InProfilerRange() {
    if (range_ != nullptr) range_->end();
  }
  InProfilerRange(const InProfilerRange&) = delete;
  InProfilerRange& operator=(const InProfilerRange&) = delete;

 private:
  ProfilerRange* range_;
};

}  // namespace penstock
