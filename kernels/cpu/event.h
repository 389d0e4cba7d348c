#pragma once

#include <mutex>
#include <string>

#include "kernels/cpu/event_record.h"
#include "kernels/device/clock.h"
#include "kernels/device/event.h"

namespace penstock::cpu {

class CpuEvent final : public Event {
 public:
  CpuEvent(std::string name, bool on_virtual_clock);
  ~CpuEvent() override;
  CpuEvent(const CpuEvent&) = delete;
  CpuEvent& operator=(const CpuEvent&) = delete;

  /// The CPU's own type; UsageError for another backend's event.
  static CpuEvent& of(Event& event);
  static const CpuEvent& of(const Event& event);

  const std::string& name() const override { return name_; }
  bool query() const override;
  void synchronize() const override;
  double seconds() const override;

  bool on_virtual_clock() const { return on_virtual_clock_; }
  /// What the latest record captured; empty if there was none. Host threads may race here, as they may in
  /// CUDA.
  EventRecordReference captured() const;
  void capture(EventRecordReference record);

 private:
  std::string name_;
  bool on_virtual_clock_;
  mutable std::mutex mutex_;
  EventRecordReference record_;
};

}  // namespace penstock::cpu
