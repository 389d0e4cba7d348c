#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/cpu/wait_point.h"

namespace penstock::cpu {

/// What one Stream::record captured. The event shares it with the work that completes it and the work that
/// waits for it, so recording again, or destroying the event, disturbs no one.
class EventRecord {
 public:
  bool complete() const { return complete_.load(); }
  /// Blocks until complete.
  void wait() {
    completed_.wait([this] { return complete(); });
  }
  /// Time on the recording stream's clock; valid once complete.
  double seconds() const { return seconds_; }
  void finish(double seconds) {
    seconds_ = seconds;
    complete_.store(true);
    completed_.notify_all();
  }

 private:
  friend class EventRecordPool;
  friend class EventRecordReference;

  std::atomic<bool> complete_{false};
  std::atomic<int> references_{0};
  double seconds_ = 0;
  EventRecord* next_free_ = nullptr;
  WaitPoint completed_;
};

/// A counted reference to a record; the last one gives the record back to the pool.
class EventRecordReference {
 public:
  EventRecordReference() = default;
  EventRecordReference(const EventRecordReference& other) : record_(other.record_) {
    if (record_ != nullptr) record_->references_.fetch_add(1, std::memory_order_relaxed);
  }
  EventRecordReference(EventRecordReference&& other) noexcept
      : record_(std::exchange(other.record_, nullptr)) {}
  EventRecordReference& operator=(EventRecordReference other) noexcept {
    std::swap(record_, other.record_);
    return *this;
  }
  ~EventRecordReference();

  EventRecord* operator->() const { return record_; }
  explicit operator bool() const { return record_ != nullptr; }

 private:
  friend class EventRecordPool;
  explicit EventRecordReference(EventRecord* record) : record_(record) {}

  EventRecord* record_ = nullptr;
};

/// The process's records, recycled. Queues and events reserve as many as they can ever hold at once, so that
/// taking one never allocates. Process-wide, because a stream of one device may wait for an event of another.
class EventRecordPool {
 public:
  static EventRecordPool& instance();

  void reserve(size_t records);
  void unreserve(size_t records);
  /// A fresh record, not complete.
  EventRecordReference take();
  void give_back(EventRecord* record);

 private:
  void grow(size_t records);

  std::mutex mutex_;
  EventRecord* free_ = nullptr;
  size_t reserved_ = 0;
  size_t made_ = 0;
  std::vector<std::unique_ptr<EventRecord[]>> blocks_;
};

}  // namespace penstock::cpu
