#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/fake_cuda/fake_cuda.h"

namespace penstock::fake_cuda {

inline constexpr int most_gpus = 8;

struct Gpu {
  std::atomic<cudaError_t> lost{cudaSuccess};
  size_t allocated = 0;      ///< guarded by State::mutex
  int resident_kernels = 0;  ///< guarded by State::mutex
  uint64_t peers = 0;        ///< whose memory it may read; guarded by State::mutex
};

struct Range {
  size_t bytes = 0;
  int gpu = -1;  ///< -1: pinned memory of the host
};

/// All of the fake; one a process.
struct State {
  Settings settings;
  std::array<Gpu, most_gpus> gpus;
  std::atomic<uint64_t> pageable_copies{0};
  std::atomic<uint64_t> graph_launches{0};

  std::mutex mutex;
  std::condition_variable changed;  ///< a value was written, a place became free, a context was lost
  std::map<std::string, std::vector<std::pair<int, cudaError_t>>> failures;
  std::map<uintptr_t, Range> ranges;  ///< by first address
  std::string lost_because;

  std::mutex host_functions;  ///< CUDA has one thread for them
};

State& state();

/// The calling thread's GPU.
int current_gpu();
void set_current_gpu(int gpu);

/// At the start of every call: what was planned for it, or what its GPU is lost to. `gpu` < 0: no GPU's
/// business.
cudaError_t entered(const char* call, int gpu);
/// Keeps it for cudaGetLastError, and returns it.
cudaError_t noted(cudaError_t code);

/// Wakes everything that waits in the fake.
void note_change();

/// Where `address` lies; nullptr in pageable memory. The state's mutex is held.
const Range* range_of(const void* address);

}  // namespace penstock::fake_cuda
