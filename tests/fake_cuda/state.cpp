#include "tests/fake_cuda/state.h"

#include <utility>

#include "kernels/device/error.h"
#include "tests/fake_cuda/enqueue.h"
#include "tests/simt/clock.h"
#include "tests/simt/machine.h"

namespace penstock::fake_cuda {
namespace {

thread_local int chosen_gpu = 0;
thread_local cudaError_t last_error = cudaSuccess;

/// Harness kernels run on the fake's streams in every program that it is linked into.
const bool kernels_run_on_streams = [] {
  simt::set_launcher([](void* stream, std::function<void()> kernel) {
    const cudaError_t code = enqueue(static_cast<cudaStream_t>(stream), std::move(kernel));
    if (code != cudaSuccess) throw DeviceError(std::string("kernel: launch: ") + cudaGetErrorName(code));
  });
  return true;
}();

}  // namespace

State& state() {
  static auto* const only = new State;  // outlives every static that still makes calls
  return *only;
}

void reset(const Settings& settings) {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  all.settings = settings;
  for (Gpu& gpu : all.gpus) {
    gpu.lost = cudaSuccess;
    gpu.peers = 0;
  }
  all.pageable_copies = 0;
  all.graph_launches = 0;
  simt::set_clock_ahead(0);
  all.failures.clear();
  all.lost_because.clear();
  last_error = cudaSuccess;
}

const Settings& settings() {
  return state().settings;
}

void shuffle(uint64_t seed) {
  state().settings.shuffle_seed = seed;
}

void fail_call(const std::string& call, cudaError_t code, int after) {
  const std::lock_guard lock(state().mutex);
  state().failures[call].emplace_back(after, code);
}

void lose_context(int gpu, cudaError_t code, const std::string& why) {
  {
    const std::lock_guard lock(state().mutex);
    if (state().lost_because.empty()) state().lost_because = why;
    state().gpus[static_cast<size_t>(gpu)].lost = code;
  }
  note_change();
}

std::string lost_because() {
  const std::lock_guard lock(state().mutex);
  return state().lost_because;
}

uint64_t pageable_copies() {
  return state().pageable_copies;
}

uint64_t graph_launches() {
  return state().graph_launches;
}

void set_clock_ahead(int64_t nanoseconds) {
  simt::set_clock_ahead(nanoseconds);
}

size_t allocated(int gpu) {
  const std::lock_guard lock(state().mutex);
  return state().gpus[static_cast<size_t>(gpu)].allocated;
}

int current_gpu() {
  return chosen_gpu;
}

void set_current_gpu(int gpu) {
  chosen_gpu = gpu;
}

cudaError_t entered(const char* call, int gpu) {
  {
    const std::lock_guard lock(state().mutex);
    const auto planned = state().failures.find(call);
    if (planned != state().failures.end()) {
      auto& list = planned->second;
      for (auto each = list.begin(); each != list.end(); ++each) {
        if (each->first-- > 0) continue;
        const cudaError_t code = each->second;
        list.erase(each);
        return noted(code);
      }
    }
  }
  return gpu < 0 ? cudaSuccess : noted(state().gpus[static_cast<size_t>(gpu)].lost.load());
}

cudaError_t noted(cudaError_t code) {
  if (code != cudaSuccess) last_error = code;
  return code;
}

void note_change() {
  // With the lock, or a waiter that has just looked would sleep on.
  const std::lock_guard lock(state().mutex);
  state().changed.notify_all();
}

const Range* range_of(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  auto after = state().ranges.upper_bound(at);
  if (after == state().ranges.begin()) return nullptr;
  --after;
  return at - after->first < after->second.bytes ? &after->second : nullptr;
}

extern "C" cudaError_t cudaGetLastError() {
  return std::exchange(last_error, cudaSuccess);
}
extern "C" cudaError_t cudaPeekAtLastError() {
  return last_error;
}

}  // namespace penstock::fake_cuda
