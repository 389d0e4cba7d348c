#include "tests/fake_cuda/stream.h"

#include <chrono>
#include <exception>
#include <utility>

#include "tests/fake_cuda/enqueue.h"

namespace penstock::fake_cuda {

void Record::finish() {
  nanoseconds = std::chrono::steady_clock::now().time_since_epoch().count();
  done = true;
  done.notify_all();
}

namespace {

std::atomic<uint64_t> streams_made{0};

/// Runs a kernel; what it throws loses the context.
void run_kernel(int gpu, const std::function<void()>& kernel) {
  try {
    kernel();
  } catch (const std::exception& error) {
    lose_context(gpu, cudaErrorLaunchFailure, error.what());
  }
}

/// The default stream of a GPU, which only synchronous start-up work uses.
cudaStream_t default_stream(int gpu) {
  static std::mutex mutex;
  static auto* const streams = new std::array<std::unique_ptr<CUstream_st>, most_gpus>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<CUstream_st>& stream = (*streams)[static_cast<size_t>(gpu)];
  if (!stream) stream = std::make_unique<CUstream_st>(gpu, 0);
  return stream.get();
}

cudaStream_t resolved(cudaStream_t stream) {
  return stream == nullptr ? default_stream(current_gpu()) : stream;
}

cudaError_t start(cudaStream_t given, std::function<void()> work) {
  cudaStream_t stream = resolved(given);
  cudaError_t code = entered("cudaLaunchKernel", stream->gpu);
  if (code == cudaSuccess && stream->gpu != current_gpu()) code = noted(cudaErrorInvalidResourceHandle);
  if (code != cudaSuccess) return code;
  stream->enqueue({std::move(work)});
  return cudaSuccess;
}

}  // namespace

cudaError_t enqueue(cudaStream_t stream, std::function<void()> kernel) {
  const int gpu = resolved(stream)->gpu;
  return start(stream, [gpu, kernel = std::move(kernel)] { run_kernel(gpu, kernel); });
}

cudaError_t enqueue_communication(cudaStream_t stream, std::function<void()> kernel) {
  const int gpu = resolved(stream)->gpu;
  return start(stream, [gpu, kernel = std::move(kernel)] {
    State& all = state();
    Gpu& place = all.gpus[static_cast<size_t>(gpu)];
    {
      std::unique_lock lock(all.mutex);
      all.changed.wait(lock, [&] {
        return place.resident_kernels < all.settings.communication_kernels || place.lost != cudaSuccess;
      });
      ++place.resident_kernels;
    }
    run_kernel(gpu, kernel);
    {
      const std::lock_guard lock(all.mutex);
      --place.resident_kernels;
    }
    note_change();
  });
}

bool context_lost(cudaStream_t stream) {
  return state().gpus[static_cast<size_t>(resolved(stream)->gpu)].lost != cudaSuccess;
}

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* made, unsigned /*flags*/, int priority) {
  if (const cudaError_t code = entered("cudaStreamCreateWithPriority", current_gpu()); code != cudaSuccess)
    return code;
  *made = new CUstream_st(current_gpu(), priority);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* made, unsigned flags) {
  return cudaStreamCreateWithPriority(made, flags, 0);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (const cudaError_t code = entered("cudaDeviceGetStreamPriorityRange", current_gpu());
      code != cudaSuccess)
    return code;
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return entered("cudaStreamDestroy", -1);
}

cudaError_t cudaStreamSynchronize(cudaStream_t given) {
  cudaStream_t stream = resolved(given);
  if (const cudaError_t code = entered("cudaStreamSynchronize", stream->gpu); code != cudaSuccess)
    return code;
  if (stream->capture != nullptr) {
    stream->capture->invalid = true;
    return noted(cudaErrorStreamCaptureUnsupported);
  }
  stream->synchronize();
  return noted(state().gpus[static_cast<size_t>(stream->gpu)].lost.load());
}

cudaError_t cudaStreamQuery(cudaStream_t given) {
  cudaStream_t stream = resolved(given);
  if (const cudaError_t code = entered("cudaStreamQuery", stream->gpu); code != cudaSuccess) return code;
  return stream->idle() ? cudaSuccess : noted(cudaErrorNotReady);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t given, cudaHostFn_t function, void* argument) {
  cudaStream_t stream = resolved(given);
  if (const cudaError_t code = entered("cudaLaunchHostFunc", stream->gpu); code != cudaSuccess) return code;
  stream->enqueue({[function, argument] {
    const std::lock_guard one_at_a_time(state().host_functions);
    function(argument);
  }});
  return cudaSuccess;
}

}  // extern "C"

}  // namespace penstock::fake_cuda

CUstream_st::CUstream_st(int on_gpu, int with_priority)
    : gpu(on_gpu),
      priority(with_priority),
      random_(penstock::fake_cuda::settings().shuffle_seed + penstock::fake_cuda::streams_made++),
      worker_([this] { run(); }) {}

CUstream_st::~CUstream_st() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  worker_.join();
}

void CUstream_st::enqueue(penstock::fake_cuda::Work work) {
  if (capture != nullptr) {
    capture->nodes.push_back(std::move(work));
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  changed_.notify_all();
}

void CUstream_st::synchronize() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
}

bool CUstream_st::idle() {
  const std::lock_guard lock(mutex_);
  return queue_.empty() && !busy_;
}

void CUstream_st::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !queue_.empty() || stopping_; });
    if (queue_.empty()) return;
    {
      const penstock::fake_cuda::Work work = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
      lock.unlock();
      if (penstock::fake_cuda::settings().shuffle_seed != 0) pause();
      const bool lost = penstock::fake_cuda::state().gpus[static_cast<size_t>(gpu)].lost != cudaSuccess;
      if (work.always || !lost) work.run();
    }
    lock.lock();
    busy_ = false;
    if (queue_.empty()) changed_.notify_all();
  }
}

void CUstream_st::pause() {
  const uint64_t bits = random_();
  if (bits % 16 == 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(bits / 16 % 200));
  } else if (bits % 16 < 8) {
    std::this_thread::yield();
  }
}
