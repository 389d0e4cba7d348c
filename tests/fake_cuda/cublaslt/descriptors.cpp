#include "tests/fake_cuda/cublaslt/descriptors.h"

#include <cstring>

#include "tests/fake_cuda/cublaslt/faults.h"

using namespace penstock::fake_cublaslt;

namespace penstock::fake_cublaslt {

Faults& faults() {
  static Faults one;
  return one;
}

Counts& counts() {
  static Counts one;
  return one;
}

void reset() {
  faults() = {};
  counts().heuristics = 0;
  counts().matmuls = 0;
  counts().split_matmuls = 0;
  counts().last_algorithm = -1;
}

cublasStatus_t planted(const char* function) {
  const auto fault = faults().fails.find(function);
  return fault == faults().fails.end() ? CUBLAS_STATUS_SUCCESS : fault->second;
}

}  // namespace penstock::fake_cublaslt

struct cublasLtContext {};

namespace {

template <class Content, class Handle>
cublasStatus_t create(const char* function, Handle* handle, const Content& content) {
  if (const cublasStatus_t fault = planted(function); fault != CUBLAS_STATUS_SUCCESS) return fault;
  *handle = reinterpret_cast<Handle>(new Content(content));
  ++counts().descriptors;
  return CUBLAS_STATUS_SUCCESS;
}

template <class Handle>
cublasStatus_t destroy(Handle handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  delete &of(handle);
  --counts().descriptors;
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t take(T& field, const void* value, size_t bytes) {
  if (value == nullptr || bytes != sizeof field) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&field, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t take_operation(bool& transposed, const void* value, size_t bytes) {
  int32_t operation = 0;
  if (const cublasStatus_t status = take(operation, value, bytes); status != CUBLAS_STATUS_SUCCESS) {
    return status;
  }
  if (operation != CUBLAS_OP_N && operation != CUBLAS_OP_T) return CUBLAS_STATUS_INVALID_VALUE;
  transposed = operation == CUBLAS_OP_T;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (const cublasStatus_t fault = planted("cublasLtCreate"); fault != CUBLAS_STATUS_SUCCESS) return fault;
  *handle = new cublasLtContext;
  ++counts().handles;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  --counts().handles;
  return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void) {
  return faults().version;
}

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
  }
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success" : "the fake library was told so, or does not like it";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* handle, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  Operation operation;
  operation.compute = compute;
  operation.scale = scale;
  return create("cublasLtMatmulDescCreate", handle, operation);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle) {
  return destroy(handle);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                              cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              size_t bytes) {
  if (const auto fault = planted("cublasLtMatmulDescSetAttribute"); fault != CUBLAS_STATUS_SUCCESS) {
    return fault;
  }
  Operation& operation = of(handle);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return take_operation(operation.a_transposed, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return take_operation(operation.b_transposed, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return take(operation.epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return take(operation.bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return take(operation.bias_type, value, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* handle, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  return create("cublasLtMatrixLayoutCreate", handle,
                Layout{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), leading});
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle) {
  return destroy(handle);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* handle) {
  return create("cublasLtMatmulPreferenceCreate", handle, Preference{});
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle) {
  return destroy(handle);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  Preference& preference = of(handle);
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return take(preference.workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return take(preference.reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return take(preference.a_alignment, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return take(preference.b_alignment, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return take(preference.c_alignment, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return take(preference.d_alignment, value, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

}  // extern "C"
