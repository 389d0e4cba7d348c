#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

#include <cublasLt.h>

/// The fake cuBLASLt exports the calls that the CUDA backend makes and computes them with plain loops over
/// fake_cuda::enqueue's streams. It has several algorithms, which add in different orders and so differ in
/// their last bits, and it refuses what the real library refuses. Tests look into it and break it from here.
namespace penstock::fake_cublaslt {

/// Set while no other thread is in the library.
struct Faults {
  /// Functions ("cublasLtMatmul") that fail, with what.
  std::map<std::string, cublasStatus_t> fails;
  bool no_algorithm = false;      ///< the heuristic returns successfully, and nothing
  bool no_bias_epilogue = false;  ///< it has none for CUBLASLT_EPILOGUE_BIAS
  bool ignores_masks = false;     ///< it proposes split sums although the preference forbids them
  int first_proposal = 0;         ///< algorithm that it thinks best
  uint64_t version = CUBLAS_VERSION;
};

/// Counted from any thread.
struct Counts {
  std::atomic<int64_t> handles = 0;      ///< open
  std::atomic<int64_t> descriptors = 0;  ///< of every kind, open
  std::atomic<int64_t> heuristics = 0;   ///< calls since reset()
  std::atomic<int64_t> matmuls = 0;      ///< calls since reset()
  std::atomic<int64_t> split_matmuls = 0;
  std::atomic<int> last_algorithm = -1;  ///< of the last matmul
};

Faults& faults();
Counts& counts();
/// No faults, and no calls yet.
void reset();

}  // namespace penstock::fake_cublaslt
