#pragma once

#include <cstdint>

#include <cublasLt.h>

/// What stands behind the library's opaque descriptors, with its defaults.
namespace penstock::fake_cublaslt {

struct Operation {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
  bool a_transposed = false;
  bool b_transposed = false;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  int32_t bias_type = -1;  ///< as D's
};

/// Column by column.
struct Layout {
  cudaDataType_t type = CUDA_R_32F;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t leading = 0;
};

struct Preference {
  uint64_t workspace = 0;
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t a_alignment = 256;
  uint32_t b_alignment = 256;
  uint32_t c_alignment = 256;
  uint32_t d_alignment = 256;
};

inline Operation& of(cublasLtMatmulDesc_t handle) {
  return *reinterpret_cast<Operation*>(handle);
}
inline Layout& of(cublasLtMatrixLayout_t handle) {
  return *reinterpret_cast<Layout*>(handle);
}
inline Preference& of(cublasLtMatmulPreference_t handle) {
  return *reinterpret_cast<Preference*>(handle);
}

/// What faults().fails says of the function, or success.
cublasStatus_t planted(const char* function);

}  // namespace penstock::fake_cublaslt
