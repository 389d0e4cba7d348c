#include "kernels/cpu/event.h"

#include <typeinfo>
#include <utility>

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock::cpu {

CpuEvent::CpuEvent(std::string name, bool on_virtual_clock)
    : name_(std::move(name)), on_virtual_clock_(on_virtual_clock) {
  EventRecordPool::instance().reserve(1);
}

CpuEvent::~CpuEvent() {
  EventRecordPool::instance().unreserve(1);
}

CpuEvent& CpuEvent::of(Event& event) {
  return const_cast<CpuEvent&>(of(std::as_const(event)));
}

const CpuEvent& CpuEvent::of(const Event& event) {
  if (typeid(event) != typeid(CpuEvent)) {
    throw UsageError(fmt::format(
        "event \"{}\" belongs to another kind of device; a CPU stream takes events made by a CPU device",
        event.name()));
  }
  return static_cast<const CpuEvent&>(event);
}

bool CpuEvent::query() const {
  const EventRecordReference record = captured();
  return !record || record->complete();
}

void CpuEvent::synchronize() const {
  const EventRecordReference record = captured();
  if (record) record->wait();
}

double CpuEvent::seconds() const {
  const EventRecordReference record = captured();
  if (!record) throw UsageError(fmt::format("event \"{}\" was never recorded, so it has no time", name_));
  if (!record->complete()) {
    throw UsageError(fmt::format(
        "event \"{}\" is not complete, so it has no time yet; ask query() or synchronize() first", name_));
  }
  return record->seconds();
}

EventRecordReference CpuEvent::captured() const {
  const std::lock_guard lock(mutex_);
  return record_;
}

void CpuEvent::capture(EventRecordReference record) {
  const std::lock_guard lock(mutex_);
  std::swap(record_, record);
}

}  // namespace penstock::cpu
