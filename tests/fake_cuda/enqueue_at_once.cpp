#include "tests/fake_cuda/enqueue.h"

namespace penstock::fake_cuda {

/// As the kernels of the SIMT harness, which know no streams.
void enqueue(CUstream_st* /*stream*/, std::function<void()> task) {
  task();
}

}  // namespace penstock::fake_cuda
