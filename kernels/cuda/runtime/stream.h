#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kernels/cuda/runtime/runtime_call.h"
#include "kernels/cuda/runtime/stamp_clock.h"
#include "kernels/device/device.h"
#include "kernels/device/stream_failure.h"

namespace penstock::cuda {

/// A CUDA stream. What differs from the general contract: kernels, copies and waits that are queued behind a
/// failed host task cannot be taken back and run; host tasks are dropped. An error of the GPU itself ends the
/// context: every later call fails, and names it.
class CudaStream final : public Stream {
 public:
  /// How many calls the host may be ahead of the GPU. CUDA's own queue holds about a thousand launches and,
  /// when it is full, blocks with a lock on which other ranks of the process would wait.
  static constexpr uint64_t run_ahead = 512;

  CudaStream(std::string name, StreamUse use, const DeviceOptions& options, StampClock& clock);
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  /// CUDA's own type; UsageError for another backend's stream.
  static CudaStream& of(Stream& stream);

  /// Before a kernel or library call is queued: throws the kept error, makes the GPU current, and waits if
  /// the host is too far ahead.
  StreamHandle ready();

  /// From now on what is queued here goes into a graph instead. DeviceError for all that cannot: only
  /// kernels, copies and fills of device memory can.
  void begin_capture();
  /// The graph; the caller's to destroy. DeviceError if the work cannot be one.
  cudaGraph_t end_capture();
  /// Forgets what was captured.
  void abandon_capture() noexcept;

  /// Others report here that its work has come to nothing.
  const std::shared_ptr<StreamFailure>& failure() const { return failure_; }

  const std::string& name() const override { return name_; }
  void record(Event& event) override;
  void wait(const Event& event) override;
  void signal(Signal& signal, uint64_t value) override;
  void wait(const Signal& signal, uint64_t value) override;
  void copy(void* dst, const void* src, size_t bytes) override;
  void fill_zero(void* dst, size_t bytes) override;
  void host_task(const char* name, double cost, std::function<void()> task) override;
  void stamp(double* seconds) override;
  void synchronize() override;

 private:
  struct HostTask {
    CudaStream& stream;
    const char* name;
    std::function<void()> task;
  };

  static void run_host_task(void* memory) noexcept;
  void execute(const HostTask& task) noexcept;
  [[noreturn]] void surface();
  void refuse_in_capture(const char* what) const;
  std::string failure_text() const;
  void bound_run_ahead();
  /// Both streams are of one process; the GPU may be another.
  std::string doing(const std::string& what) const;

  static constexpr uint64_t marks = 4;
  static constexpr uint64_t calls_a_mark = run_ahead / marks;

  const std::string name_;
  const int rank_;
  const int gpu_;
  const bool strict_events_;
  StampClock& clock_;
  cudaStream_t stream_ = nullptr;
  std::array<cudaEvent_t, marks> marks_{};
  uint64_t calls_ = 0;
  bool capturing_ = false;
  StampRing stamps_;

  const std::shared_ptr<StreamFailure> failure_ = std::make_shared<StreamFailure>();
};

}  // namespace penstock::cuda
