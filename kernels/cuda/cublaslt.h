#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include <cublasLt.h>

#include "kernels/device/dtype.h"

/// cuBLASLt's handles and statuses as C++ sees them; only sources that call the library include this.
namespace penstock::cuda {

/// DeviceError unless `status` is success: "<doing> <on>: <status, and what it means>; <what to do>".
void check_cublas(cublasStatus_t status, std::string_view doing, std::string_view on);

template <auto Destroy>
struct CublasDeleter {
  template <class T>
  void operator()(T* what) const {
    Destroy(what);  // fails only for what never was created
  }
};
using LtHandle = std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, CublasDeleter<cublasLtDestroy>>;
using LtOperation = std::unique_ptr<cublasLtMatmulDescOpaque_t, CublasDeleter<cublasLtMatmulDescDestroy>>;
using LtLayout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, CublasDeleter<cublasLtMatrixLayoutDestroy>>;
using LtPreference =
    std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, CublasDeleter<cublasLtMatmulPreferenceDestroy>>;

/// fp32, bf16 and fp16; UsageError for others.
cudaDataType_t cublas_type(DType dtype);

}  // namespace penstock::cuda
