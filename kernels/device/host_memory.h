#pragma once

#include <cstddef>

namespace penstock {

/// Memory of the host that the streams of a device copy from and to without holding up the host thread
/// (CUDA: pinned; from other host memory CUDA copies too, but the call may wait for the stream). Zero at
/// first. Made at start-up, by Device::create_host_memory.
class HostMemory {
 public:
  using Deleter = void (*)(void*, size_t);

  /// Takes over `bytes` bytes at `memory`; `release` gives them back.
  HostMemory(void* memory, size_t bytes, Deleter release)
      : memory_(memory), bytes_(bytes), release_(release) {}
  ~HostMemory() {
    if (memory_ != nullptr) release_(memory_, bytes_);
  }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  void* data() const { return memory_; }
  size_t bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  void* memory_;
  size_t bytes_;
  Deleter release_;
};

}  // namespace penstock
