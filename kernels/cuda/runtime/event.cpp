#include "kernels/cuda/runtime/event.h"

#include <typeinfo>
#include <utility>

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock::cuda {

CudaEvent::CudaEvent(std::string name, int rank, int gpu, StampClock& clock)
    : name_(std::move(name)), rank_(rank), clock_(clock) {
  use_gpu(gpu);
  check(cudaEventCreateWithFlags(&event_, cudaEventDefault), [&] { return doing("making it"); });
}

CudaEvent::~CudaEvent() {
  report(cudaEventDestroy(event_), [&] { return doing("destroying it"); });
}

CudaEvent& CudaEvent::of(Event& event) {
  return const_cast<CudaEvent&>(of(std::as_const(event)));
}

const CudaEvent& CudaEvent::of(const Event& event) {
  if (typeid(event) != typeid(CudaEvent)) {
    throw UsageError(fmt::format(
        "event \"{}\" belongs to another kind of device; a CUDA stream takes events made by a CUDA device",
        event.name()));
  }
  return static_cast<const CudaEvent&>(event);
}

bool CudaEvent::query() const {
  const cudaError_t code = cudaEventQuery(event_);
  if (code == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // an answer, not an error
    return false;
  }
  check(code, [&] { return doing("asking whether it is complete"); });
  clock_.resolve();
  return true;
}

void CudaEvent::synchronize() const {
  check(cudaEventSynchronize(event_), [&] { return doing("waiting for it"); });
  clock_.resolve();
}

double CudaEvent::seconds() const {
  if (!recorded()) throw UsageError(fmt::format("event \"{}\" was never recorded, so it has no time", name_));
  if (!query()) {
    throw UsageError(fmt::format(
        "event \"{}\" is not complete, so it has no time yet; ask query() or synchronize() first", name_));
  }
  return clock_.seconds(event_);
}

std::string CudaEvent::doing(const char* what) const {
  return fmt::format("rank {}, event \"{}\": {}", rank_, name_, what);
}

}  // namespace penstock::cuda
