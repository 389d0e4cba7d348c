#include <memory>

#include "tests/fake_cuda/stream.h"

namespace penstock::fake_cuda {
namespace {

cudaStream_t joined(cudaStream_t stream, CUgraph_st* capture) {
  stream->capture = capture;
  capture->streams.push_back(stream);
  return stream;
}

}  // namespace

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* made, unsigned flags) {
  if (const cudaError_t code = entered("cudaEventCreateWithFlags", current_gpu()); code != cudaSuccess)
    return code;
  *made = new CUevent_st;
  (*made)->gpu = current_gpu();
  (*made)->flags = flags;
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* made) {
  return cudaEventCreateWithFlags(made, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return entered("cudaEventDestroy", -1);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (const cudaError_t code = entered("cudaEventRecord", stream->gpu); code != cudaSuccess) return code;
  if (event->gpu != stream->gpu) return noted(cudaErrorInvalidResourceHandle);
  {
    const std::lock_guard lock(event->mutex);
    event->capture = stream->capture;
    if (stream->capture != nullptr)
      return cudaSuccess;  // an edge of the graph, whose nodes are in order anyway
  }
  auto record = std::make_shared<Record>();
  {
    const std::lock_guard lock(event->mutex);
    event->record = record;
  }
  stream->enqueue({[record] { record->finish(); }, true});
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  if (const cudaError_t code = entered("cudaStreamWaitEvent", stream->gpu); code != cudaSuccess) return code;
  std::shared_ptr<Record> record;
  {
    const std::lock_guard lock(event->mutex);
    if (event->capture != nullptr) {
      if (stream->capture == nullptr) joined(stream, event->capture);
      return cudaSuccess;
    }
    record = event->record;
  }
  if (stream->capture != nullptr) {
    stream->capture->invalid = true;  // of work outside the capture
    return noted(cudaErrorStreamCaptureIsolation);
  }
  if (record) stream->enqueue({[record] { record->wait(); }});
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (const cudaError_t code = entered("cudaEventQuery", event->gpu); code != cudaSuccess) return code;
  const auto record = event->latest();
  return !record || record->done ? cudaSuccess : noted(cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const cudaError_t code = entered("cudaEventSynchronize", event->gpu); code != cudaSuccess) return code;
  if (const auto record = event->latest()) record->wait();
  return noted(state().gpus[static_cast<size_t>(event->gpu)].lost.load());
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (const cudaError_t code = entered("cudaEventElapsedTime", -1); code != cudaSuccess) return code;
  const auto from = start->latest();
  const auto to = end->latest();
  if (((start->flags | end->flags) & cudaEventDisableTiming) != 0 || !from || !to)
    return noted(cudaErrorInvalidResourceHandle);
  if (!from->done || !to->done) return noted(cudaErrorNotReady);
  *milliseconds = static_cast<float>(1e-6 * static_cast<double>(to->nanoseconds - from->nanoseconds));
  return cudaSuccess;
}

}  // extern "C"

}  // namespace penstock::fake_cuda
