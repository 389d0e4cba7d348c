#include "kernels/cuda/runtime/stream.h"

#include <cstdio>
#include <exception>
#include <memory>
#include <typeinfo>
#include <utility>

#include <fmt/format.h>
#include <nvtx3/nvToolsExtCudaRt.h>

#include "kernels/cuda/runtime/event.h"
#include "kernels/cuda/runtime/signal.h"
#include "kernels/cuda/runtime/stream_memory.h"
#include "kernels/device/error.h"

namespace penstock::cuda {

CudaStream::CudaStream(std::string name, StreamUse use, const DeviceOptions& options, StampClock& clock)
    : name_(std::move(name)),
      rank_(options.rank),
      gpu_(options.index),
      strict_events_(options.strict_events),
      clock_(clock),
      stamps_(clock, 2 * run_ahead) {
  use_gpu(gpu_);
  int lowest = 0;
  int highest = 0;
  check(cudaDeviceGetStreamPriorityRange(&lowest, &highest),
        [&] { return doing("asking for the range of priorities"); });
  // Transfers are short and others wait for them.
  const int priority = use == StreamUse::transfer ? highest : lowest;
  check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority),
        [&] { return doing("making it"); });
  nvtxNameCudaStreamA(stream_, name_.c_str());  // for profilers; nothing without one
  for (cudaEvent_t& mark : marks_) {
    check(cudaEventCreateWithFlags(&mark, cudaEventDisableTiming),
          [&] { return doing("making the events that bound how far the host runs ahead"); });
  }
}

CudaStream::~CudaStream() {
  report(cudaStreamSynchronize(stream_), [&] { return doing("running what is queued, to destroy it"); });
  stamps_.resolve();
  if (failure_->failed()) {
    std::fputs(
        fmt::format("penstock: {}; the stream was destroyed before the error could surface\n", failure_text())
            .c_str(),
        stderr);
  }
  for (cudaEvent_t mark : marks_)
    report(cudaEventDestroy(mark), [&] { return doing("destroying an event"); });
  report(cudaStreamDestroy(stream_), [&] { return doing("destroying it"); });
}

CudaStream& CudaStream::of(Stream& stream) {
  if (typeid(stream) != typeid(CudaStream)) {
    throw UsageError(fmt::format(
        "stream \"{}\" belongs to another kind of device; CUDA kernels run on streams made by a CUDA device",
        stream.name()));
  }
  return static_cast<CudaStream&>(stream);
}

StreamHandle handle_of(Stream& stream) {
  return CudaStream::of(stream).ready();
}

StreamHandle CudaStream::ready() {
  if (failure_->failed()) surface();
  use_gpu(gpu_);
  if (!capturing_ && ++calls_ % calls_a_mark == 0) bound_run_ahead();
  return stream_;
}

void CudaStream::begin_capture() {
  StreamHandle stream = ready();
  // Other ranks' threads go on with what a capture would forbid.
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
        [&] { return doing("beginning to capture a graph"); });
  capturing_ = true;
}

cudaGraph_t CudaStream::end_capture() {
  capturing_ = false;
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream_, &graph), [&] { return doing("capturing a graph"); });
  return graph;
}

void CudaStream::abandon_capture() noexcept {
  capturing_ = false;
  cudaGraph_t graph = nullptr;
  static_cast<void>(cudaStreamEndCapture(stream_, &graph));  // it may say that the capture is invalid
  static_cast<void>(cudaGetLastError());
  if (graph != nullptr) report(cudaGraphDestroy(graph), [] { return "destroying a captured graph"; });
}

void CudaStream::refuse_in_capture(const char* what) const {
  if (capturing_) throw DeviceError(doing(fmt::format("{} cannot be captured in a graph", what)));
}

void CudaStream::bound_run_ahead() {
  // An event that was never recorded counts as complete.
  cudaEvent_t mark = marks_[calls_ / calls_a_mark % marks];
  check(cudaEventSynchronize(mark), [&] { return doing("waiting for work queued earlier"); });
  if (failure_->failed()) surface();
  check(cudaEventRecord(mark, stream_), [&] { return doing("marking how far it is"); });
}

void CudaStream::record(Event& event) {
  refuse_in_capture("recording an event");
  CudaEvent& target = CudaEvent::of(event);
  check(cudaEventRecord(target.handle(), ready()),
        [&] { return doing(fmt::format("recording event \"{}\"", target.name())); });
  target.note_recorded();
}

void CudaStream::wait(const Event& event) {
  refuse_in_capture("waiting for an event");
  const CudaEvent& source = CudaEvent::of(event);
  if (!source.recorded() && strict_events_) {
    throw UsageError(fmt::format(
        "rank {}, stream \"{}\": wait for event \"{}\", which was never recorded; record it first, or use a "
        "signal",
        rank_, name_, source.name()));
  }
  check(cudaStreamWaitEvent(ready(), source.handle(), cudaEventWaitDefault),
        [&] { return doing(fmt::format("waiting for event \"{}\"", source.name())); });
}

void CudaStream::signal(Signal& signal, uint64_t value) {
  refuse_in_capture("writing a signal");
  CudaSignal& target = CudaSignal::of(signal);
  StreamHandle stream = ready();
  target.promise(value);
  check(queue_write(stream, target.cell(), target.in_cell(value)),
        [&] { return doing(fmt::format("writing {} to signal \"{}\"", value, target.name())); });
}

void CudaStream::wait(const Signal& signal, uint64_t value) {
  refuse_in_capture("waiting for a signal");
  const CudaSignal& source = CudaSignal::of(signal);
  check(queue_wait(ready(), source.cell(), source.in_cell(value)),
        [&] { return doing(fmt::format("waiting for signal \"{}\" to reach {}", source.name(), value)); });
}

void CudaStream::copy(void* dst, const void* src, size_t bytes) {
  StreamHandle stream = ready();
  if (bytes == 0) return;
  check(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, stream),
        [&] { return doing(fmt::format("copying {} bytes from {} to {}", bytes, src, dst)); });
}

void CudaStream::fill_zero(void* dst, size_t bytes) {
  StreamHandle stream = ready();
  if (bytes == 0) return;
  check(cudaMemsetAsync(dst, 0, bytes, stream),
        [&] { return doing(fmt::format("zeroing {} bytes at {}", bytes, dst)); });
}

void CudaStream::host_task(const char* name, double /*cost*/, std::function<void()> task) {
  refuse_in_capture("a host task");
  StreamHandle stream = ready();
  auto queued = std::make_unique<HostTask>(HostTask{*this, name, std::move(task)});
  check(cudaLaunchHostFunc(stream, run_host_task, queued.get()),
        [&] { return doing(fmt::format("queueing host task \"{}\"", name)); });
  static_cast<void>(queued.release());  // run_host_task's now
}

void CudaStream::run_host_task(void* memory) noexcept {
  const std::unique_ptr<HostTask> task(static_cast<HostTask*>(memory));
  task->stream.execute(*task);
}

void CudaStream::execute(const HostTask& task) noexcept {
  if (failure_->failed()) return failure_->drop();
  try {
    task.task();
  } catch (const std::exception& error) {
    failure_->fail(task.name, error.what());
  } catch (...) {
    failure_->fail(task.name, "an exception that is no std::exception");
  }
}

void CudaStream::stamp(double* seconds) {
  refuse_in_capture("a stamp");
  stamps_.stamp(ready(), seconds);
}

void CudaStream::synchronize() {
  refuse_in_capture("waiting for the stream");
  use_gpu(gpu_);
  check(cudaStreamSynchronize(stream_), [&] { return doing("waiting for what is queued"); });
  clock_.resolve();
  if (failure_->failed()) surface();
  clock_.keep_aligned();
}

void CudaStream::surface() {
  check(cudaStreamSynchronize(stream_), [&] { return doing("waiting for what is queued"); });
  clock_.resolve();
  const std::string text = failure_text();
  failure_->clear();
  throw DeviceError(text);
}

std::string CudaStream::failure_text() const {
  return doing(failure_->text());
}

std::string CudaStream::doing(const std::string& what) const {
  return fmt::format("rank {}, stream \"{}\": {}", rank_, name_, what);
}

}  // namespace penstock::cuda
