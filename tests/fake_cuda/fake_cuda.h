#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include <cuda_runtime_api.h>

/// A stand-in for the CUDA runtime (and, in files beside it, for libraries above it), for tests: its calls,
/// over threads of the processor. A stream is a thread with an in-order queue; events capture as CUDA's do;
/// host functions run one at a time, as on CUDA's one thread for them; copies from and to pageable memory
/// hold the host up as much as CUDA may. GPU memory is memory of the host, so kernels are those of the SIMT
/// harness.
namespace penstock::fake_cuda {

struct Settings {
  int gpus = 2;                ///< 0: the driver sees none
  int driver_version = 13000;  ///< 0: there is no driver; below the toolkit's: too old
  int compute_major = 9;
  int compute_minor = 0;
  size_t memory = size_t{4} << 30;  ///< bytes, of each GPU
  bool peer_access = true;
  int communication_kernels = 8;  ///< how many can be resident on a GPU at once; others wait for their turn
  bool buffered = false;          ///< messages: a send completes without its receive
  uint64_t shuffle_seed = 0;      ///< not 0: streams pause at random before their work
};

/// Starts afresh: settings, errors, planned failures. No stream may be alive.
void reset(const Settings& settings = {});
const Settings& settings();
/// Streams made from now on pause at random before their work.
void shuffle(uint64_t seed);

/// The `after`-th call from now on (0: the next) of `call` ("cudaMalloc") returns `code` and does nothing.
void fail_call(const std::string& call, cudaError_t code, int after = 0);

/// Kernels start with enqueue() of enqueue.h. What one throws is an error of the GPU: its context is lost
/// (cudaErrorLaunchFailure) and lost_because() tells. One that does not start is a DeviceError, as
/// launch()'s. This is a kernel that waits for other ranks: it needs one of the GPU's places for such, and
/// keeps it until it is done.
cudaError_t enqueue_communication(cudaStream_t stream, std::function<void()> kernel);
/// Whether a kernel that waits should give up: its GPU's context is lost.
bool context_lost(cudaStream_t stream);
/// From now on every call for this GPU returns `code`, and queued work is dropped.
void lose_context(int gpu, cudaError_t code, const std::string& why);
std::string lost_because();

/// Copies since reset() with pageable memory at one end.
uint64_t pageable_copies();
/// Graphs launched since reset().
uint64_t graph_launches();
/// From now on the clock of all GPUs is that far from the host's.
void set_clock_ahead(int64_t nanoseconds);
/// GPU bytes that are allocated.
size_t allocated(int gpu);

}  // namespace penstock::fake_cuda
