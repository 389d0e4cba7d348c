#include "kernels/cpu/event_record.h"

namespace penstock::cpu {

EventRecordReference::~EventRecordReference() {
  if (record_ != nullptr && record_->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    EventRecordPool::instance().give_back(record_);
  }
}

EventRecordPool& EventRecordPool::instance() {
  // Never destroyed: streams with static lifetime may still give records back.
  static EventRecordPool& pool = *new EventRecordPool;
  return pool;
}

void EventRecordPool::reserve(size_t records) {
  const std::lock_guard lock(mutex_);
  if (reserved_ + records > made_) grow(reserved_ + records - made_);
  reserved_ += records;
}

void EventRecordPool::unreserve(size_t records) {
  const std::lock_guard lock(mutex_);
  reserved_ -= records;
}

EventRecordReference EventRecordPool::take() {
  const std::lock_guard lock(mutex_);
  // Only while a host thread in Event::query or synchronize holds one beyond what is reserved.
  if (free_ == nullptr) grow(1);
  EventRecord* record = std::exchange(free_, free_->next_free_);
  record->complete_.store(false, std::memory_order_relaxed);
  record->references_.store(1, std::memory_order_relaxed);
  return EventRecordReference(record);
}

void EventRecordPool::give_back(EventRecord* record) {
  const std::lock_guard lock(mutex_);
  record->next_free_ = std::exchange(free_, record);
}

void EventRecordPool::grow(size_t records) {
  blocks_.push_back(std::make_unique<EventRecord[]>(records));
  made_ += records;
  for (size_t i = 0; i < records; ++i) {
    EventRecord& record = blocks_.back()[i];
    record.next_free_ = std::exchange(free_, &record);
  }
}

}  // namespace penstock::cpu
