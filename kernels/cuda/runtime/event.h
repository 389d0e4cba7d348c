#pragma once

#include <atomic>
#include <string>

#include "kernels/cuda/runtime/runtime_call.h"
#include "kernels/cuda/runtime/stamp_clock.h"
#include "kernels/device/event.h"

namespace penstock::cuda {

class CudaEvent final : public Event {
 public:
  CudaEvent(std::string name, int rank, int gpu, StampClock& clock);
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  /// CUDA's own type; UsageError for another backend's event.
  static CudaEvent& of(Event& event);
  static const CudaEvent& of(const Event& event);

  const std::string& name() const override { return name_; }
  bool query() const override;
  void synchronize() const override;
  double seconds() const override;

  cudaEvent_t handle() const { return event_; }
  bool recorded() const { return recorded_.load(); }
  void note_recorded() { recorded_.store(true); }

 private:
  std::string doing(const char* what) const;

  const std::string name_;
  const int rank_;
  StampClock& clock_;
  cudaEvent_t event_ = nullptr;
  std::atomic<bool> recorded_{false};
};

}  // namespace penstock::cuda
