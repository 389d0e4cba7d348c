// The calls of cuBLASLt that the backend makes, each looked up at its first use.
#include <type_traits>

#include <cublasLt.h>
#include <fmt/format.h>

#include "kernels/cuda/loaded/library.h"

namespace {

penstock::cuda::loaded::Library& library() {
  static penstock::cuda::loaded::Library opened(fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR),
                                                fmt::format("cuBLAS of CUDA {}", CUBLAS_VER_MAJOR));
  return opened;
}

/// forward<cublasLtCreate>("cublasLtCreate", handle).
template <auto* declared, class... Arguments>
auto forward(const char* name, Arguments... arguments) {
  static auto* const found = library().function<std::remove_pointer_t<decltype(declared)>>(name);
  return found(arguments...);
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* lightHandle) {
  return forward<cublasLtCreate>("cublasLtCreate", lightHandle);
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t lightHandle) {
  return forward<cublasLtDestroy>("cublasLtDestroy", lightHandle);
}

const char* cublasLtGetStatusName(cublasStatus_t status) {
  return forward<cublasLtGetStatusName>("cublasLtGetStatusName", status);
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return forward<cublasLtGetStatusString>("cublasLtGetStatusString", status);
}

size_t cublasLtGetVersion() {
  return forward<cublasLtGetVersion>("cublasLtGetVersion");
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t computeDesc,
                              const void* alpha, const void* A, cublasLtMatrixLayout_t Adesc, const void* B,
                              cublasLtMatrixLayout_t Bdesc, const void* beta, const void* C,
                              cublasLtMatrixLayout_t Cdesc, void* D, cublasLtMatrixLayout_t Ddesc,
                              const cublasLtMatmulAlgo_t* algo, void* workspace, size_t workspaceSizeInBytes,
                              cudaStream_t stream) {
  return forward<cublasLtMatmul>("cublasLtMatmul", lightHandle, computeDesc, alpha, A, Adesc, B, Bdesc, beta,
                                 C, Cdesc, D, Ddesc, algo, workspace, workspaceSizeInBytes, stream);
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t operationDesc,
                                       cublasLtMatrixLayout_t Adesc, cublasLtMatrixLayout_t Bdesc,
                                       cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc,
                                       const cublasLtMatmulAlgo_t* algo,
                                       cublasLtMatmulHeuristicResult_t* result) {
  return forward<cublasLtMatmulAlgoCheck>("cublasLtMatmulAlgoCheck", lightHandle, operationDesc, Adesc, Bdesc,
                                          Cdesc, Ddesc, algo, result);
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attr, void* buf,
                                                    size_t sizeInBytes, size_t* sizeWritten) {
  return forward<cublasLtMatmulAlgoConfigGetAttribute>("cublasLtMatmulAlgoConfigGetAttribute", algo, attr,
                                                       buf, sizeInBytes, sizeWritten);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t lightHandle,
                                              cublasLtMatmulDesc_t operationDesc,
                                              cublasLtMatrixLayout_t Adesc, cublasLtMatrixLayout_t Bdesc,
                                              cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc,
                                              cublasLtMatmulPreference_t preference, int requestedAlgoCount,
                                              cublasLtMatmulHeuristicResult_t heuristicResultsArray[],
                                              int* returnAlgoCount) {
  return forward<cublasLtMatmulAlgoGetHeuristic>("cublasLtMatmulAlgoGetHeuristic", lightHandle, operationDesc,
                                                 Adesc, Bdesc, Cdesc, Ddesc, preference, requestedAlgoCount,
                                                 heuristicResultsArray, returnAlgoCount);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* matmulDesc, cublasComputeType_t computeType,
                                        cudaDataType_t scaleType) {
  return forward<cublasLtMatmulDescCreate>("cublasLtMatmulDescCreate", matmulDesc, computeType, scaleType);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t matmulDesc) {
  return forward<cublasLtMatmulDescDestroy>("cublasLtMatmulDescDestroy", matmulDesc);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t matmulDesc,
                                              cublasLtMatmulDescAttributes_t attr, const void* buf,
                                              size_t sizeInBytes) {
  return forward<cublasLtMatmulDescSetAttribute>("cublasLtMatmulDescSetAttribute", matmulDesc, attr, buf,
                                                 sizeInBytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* pref) {
  return forward<cublasLtMatmulPreferenceCreate>("cublasLtMatmulPreferenceCreate", pref);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t pref) {
  return forward<cublasLtMatmulPreferenceDestroy>("cublasLtMatmulPreferenceDestroy", pref);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref,
                                                    cublasLtMatmulPreferenceAttributes_t attr,
                                                    const void* buf, size_t sizeInBytes) {
  return forward<cublasLtMatmulPreferenceSetAttribute>("cublasLtMatmulPreferenceSetAttribute", pref, attr,
                                                       buf, sizeInBytes);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* matLayout, cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld) {
  return forward<cublasLtMatrixLayoutCreate>("cublasLtMatrixLayoutCreate", matLayout, type, rows, cols, ld);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t matLayout) {
  return forward<cublasLtMatrixLayoutDestroy>("cublasLtMatrixLayoutDestroy", matLayout);
}

}  // extern "C"
