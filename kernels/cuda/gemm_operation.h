#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/gemm_plans.h"
#include "kernels/cuda/stream_handle.h"

namespace penstock::cuda {

/// One shape in cuBLASLt's words. The library counts columns first, so that it computes yᵀ = bᵀ · aᵀ: its A
/// is our b, its B our a, its D our y, and a bias runs along the rows of its D.
class GemmOperation {
 public:
  /// bias_in_epilogue: a bias has the type of y then.
  GemmOperation(cublasLtHandle_t library, const GemmShape& shape, bool bias_in_epilogue);

  const GemmShape& shape() const { return shape_; }
  bool bias_in_epilogue() const { return bias_in_epilogue_; }

  /// The library's proposals, at most `most`, best first, none of which splits the sums; empty if it has
  /// none.
  std::vector<GemmPlan> proposals(size_t workspace_limit, int most) const;
  /// DeviceError unless the plan's algorithm runs on this device with no more than the plan's workspace.
  void check(const GemmPlan& plan) const;
  /// Pointers as in GemmProduct::run; `bias` only with bias_in_epilogue().
  void enqueue(StreamHandle stream, const GemmPlan& plan, const void* a, const void* b, const void* bias,
               void* y, void* workspace);

 private:
  void set(cublasLtMatmulDescAttributes_t attribute, const void* value, size_t bytes, const char* what);

  cublasLtHandle_t library_;
  GemmShape shape_;
  bool bias_in_epilogue_;
  LtOperation operation_;
  LtLayout a_, b_, y_;
  uint32_t a_alignment_ = 0;  ///< bytes, of any row of the matrix
  uint32_t b_alignment_ = 0;
  uint32_t y_alignment_ = 0;
};

}  // namespace penstock::cuda
