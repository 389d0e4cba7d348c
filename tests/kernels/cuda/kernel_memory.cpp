#include "tests/kernels/cuda/kernel_memory.h"

#include <new>

namespace penstock::testing::kernel_memory {

void* reserve(size_t bytes) {
  return ::operator new(bytes);
}
void release(void* memory) noexcept {
  ::operator delete(memory);
}
void finish() {}

}  // namespace penstock::testing::kernel_memory
