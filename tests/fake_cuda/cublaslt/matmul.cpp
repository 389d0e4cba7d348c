// Choosing and running products: D = alpha op(A) op(B) + beta C (+ bias along D's rows), column by column.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/device/bfloat16.h"
#include "kernels/device/float16.h"
#include "tests/fake_cuda/cublaslt/algorithm.h"
#include "tests/fake_cuda/cublaslt/descriptors.h"
#include "tests/fake_cuda/cublaslt/faults.h"
#include "tests/fake_cuda/enqueue.h"

using namespace penstock::fake_cublaslt;

namespace {

using penstock::bfloat16;
using penstock::float16;

int64_t size_of(cudaDataType_t type) {
  return type == CUDA_R_32F ? 4 : 2;
}

struct Matrix {
  Layout layout;
  void* data = nullptr;

  int64_t place(int64_t row, int64_t column) const { return column * layout.leading + row; }
  float load(int64_t row, int64_t column) const {
    const int64_t i = place(row, column);
    if (layout.type == CUDA_R_16BF) return static_cast<float>(static_cast<const bfloat16*>(data)[i]);
    if (layout.type == CUDA_R_16F) return static_cast<float>(static_cast<const float16*>(data)[i]);
    return static_cast<const float*>(data)[i];
  }
  void store(int64_t row, int64_t column, float value) const {
    const int64_t i = place(row, column);
    if (layout.type == CUDA_R_16BF) {
      static_cast<bfloat16*>(data)[i] = bfloat16(value);
    } else if (layout.type == CUDA_R_16F) {
      static_cast<float16*>(data)[i] = float16(value);
    } else {
      static_cast<float*>(data)[i] = value;
    }
  }
};

struct Product {
  Operation operation;
  Matrix a, b, c, d;
  Algorithm algorithm;
  float alpha = 1;
  float beta = 0;

  int64_t depth() const { return operation.a_transposed ? a.layout.rows : a.layout.columns; }
};

/// The 10 bits of mantissa that TF32 keeps, rounded to nearest, ties away (as cvt.rna does).
float to_tf32(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0x1000U) & 0xFFFFE000U;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

/// op(matrix) as rows of `depth` contiguous fp32 values: rows of op(A), columns of op(B).
std::vector<float> lines(const Matrix& matrix, bool depth_is_rows, bool tf32) {
  const int64_t depth = depth_is_rows ? matrix.layout.rows : matrix.layout.columns;
  const int64_t count = depth_is_rows ? matrix.layout.columns : matrix.layout.rows;
  std::vector<float> all;
  all.reserve(static_cast<size_t>(depth * count));
  for (int64_t line = 0; line < count; ++line) {
    for (int64_t k = 0; k < depth; ++k) {
      const float value = depth_is_rows ? matrix.load(k, line) : matrix.load(line, k);
      all.push_back(tf32 ? to_tf32(value) : value);
    }
  }
  return all;
}

float sum_of(const float* a, const float* b, int64_t depth, int64_t block) {
  float sum = 0;
  for (int64_t begin = 0; begin < depth; begin += block) {
    float part = 0;
    for (int64_t k = begin; k < std::min(depth, begin + block); ++k) part += a[k] * b[k];
    sum += part;
  }
  return sum;
}

void compute(const Product& product) {
  const bool tf32 = product.operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  const int64_t depth = product.depth();
  const std::vector<float> a = lines(product.a, product.operation.a_transposed, tf32);
  const std::vector<float> b = lines(product.b, !product.operation.b_transposed, tf32);
  Matrix bias{{static_cast<cudaDataType_t>(product.operation.bias_type)}, nullptr};
  if (product.operation.epilogue == CUBLASLT_EPILOGUE_BIAS) {
    bias.data = const_cast<void*>(product.operation.bias);
  }
  for (int64_t column = 0; column < product.d.layout.columns; ++column) {
    for (int64_t row = 0; row < product.d.layout.rows; ++row) {
      float value =
          product.alpha * sum_of(&a[row * depth], &b[column * depth], depth, product.algorithm.depth_block);
      if (product.beta != 0) value += product.beta * product.c.load(row, column);
      if (bias.data != nullptr) value += bias.load(row, 0);
      product.d.store(row, column, value);
    }
  }
}

bool same(const Layout& x, const Layout& y) {
  return x.type == y.type && x.rows == y.rows && x.columns == y.columns && x.leading == y.leading;
}

/// What the library's documentation asks of types and sizes.
cublasStatus_t acceptable(const Operation& operation, const Layout& a, const Layout& b, const Layout& c,
                          const Layout& d) {
  for (const Layout& layout : {a, b, c, d}) {
    if (layout.rows < 1 || layout.columns < 1 || layout.leading < layout.rows) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (layout.type != CUDA_R_32F && layout.type != CUDA_R_16BF && layout.type != CUDA_R_16F) {
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
  }
  const int64_t m = operation.a_transposed ? a.columns : a.rows;
  const int64_t k = operation.a_transposed ? a.rows : a.columns;
  const int64_t n = operation.b_transposed ? b.rows : b.columns;
  if (k != (operation.b_transposed ? b.columns : b.rows) || d.rows != m || d.columns != n || !same(c, d)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (operation.scale != CUDA_R_32F || a.type != b.type) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (d.type != CUDA_R_32F && d.type != a.type) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (operation.compute != CUBLAS_COMPUTE_32F &&
      (operation.compute != CUBLAS_COMPUTE_32F_FAST_TF32 || a.type != CUDA_R_32F)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (operation.epilogue == CUBLASLT_EPILOGUE_BIAS) {
    if (operation.bias_type != -1 && operation.bias_type != static_cast<int32_t>(d.type)) {
      return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    return faults().no_bias_epilogue ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
  }
  return operation.epilogue == CUBLASLT_EPILOGUE_DEFAULT ? CUBLAS_STATUS_SUCCESS
                                                         : CUBLAS_STATUS_NOT_SUPPORTED;
}

bool columns_aligned(const Algorithm& algorithm, const Layout& layout) {
  return layout.leading * size_of(layout.type) % algorithm.alignment == 0;
}

bool suits(const Algorithm& algorithm, const Layout& a, const Layout& b, const Layout& d) {
  return columns_aligned(algorithm, a) && columns_aligned(algorithm, b) && columns_aligned(algorithm, d);
}

bool aligned(const Matrix& matrix, uint32_t bytes) {
  return reinterpret_cast<uintptr_t>(matrix.data) % bytes == 0;
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t /*library*/, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preferences, int requested,
                                              cublasLtMatmulHeuristicResult_t results[], int* returned) {
  ++counts().heuristics;
  *returned = 0;
  if (const auto fault = planted("cublasLtMatmulAlgoGetHeuristic"); fault != CUBLAS_STATUS_SUCCESS) {
    return fault;
  }
  if (requested < 1) return CUBLAS_STATUS_INVALID_VALUE;
  if (const auto status = acceptable(of(operation), of(a), of(b), of(c), of(d));
      status != CUBLAS_STATUS_SUCCESS) {
    return status;
  }
  if (faults().no_algorithm) return CUBLAS_STATUS_SUCCESS;
  const Preference& wishes = of(preferences);
  const uint32_t least =
      std::min({wishes.a_alignment, wishes.b_alignment, wishes.c_alignment, wishes.d_alignment});
  const auto propose = [&](const Algorithm& algorithm) {
    if (*returned == requested || algorithm.alignment > least || algorithm.workspace > wishes.workspace ||
        !suits(algorithm, of(a), of(b), of(d))) {
      return;
    }
    results[(*returned)++] = {pack(algorithm), algorithm.workspace, CUBLAS_STATUS_SUCCESS, 1.0F, {}};
  };
  const bool may_split =
      faults().ignores_masks || (wishes.reductions & CUBLASLT_REDUCTION_SCHEME_INPLACE) != 0;
  for (size_t i = 0; i < algorithms.size(); ++i) {
    Algorithm algorithm = algorithms[(i + static_cast<size_t>(faults().first_proposal)) % algorithms.size()];
    if (may_split) {
      Algorithm split = algorithm;
      split.split_k = 4;
      split.reduction = CUBLASLT_REDUCTION_SCHEME_INPLACE;
      propose(split);
    }
    propose(algorithm);
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t /*library*/, cublasLtMatmulDesc_t operation,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* packed,
                                       cublasLtMatmulHeuristicResult_t* result) {
  if (const auto fault = planted("cublasLtMatmulAlgoCheck"); fault != CUBLAS_STATUS_SUCCESS) return fault;
  Algorithm algorithm;
  if (!unpack(*packed, algorithm)) return CUBLAS_STATUS_INVALID_VALUE;
  if (const auto status = acceptable(of(operation), of(a), of(b), of(c), of(d));
      status != CUBLAS_STATUS_SUCCESS) {
    return status;
  }
  if (!suits(algorithm, of(a), of(b), of(d))) return CUBLAS_STATUS_NOT_SUPPORTED;
  result->workspaceSize = algorithm.workspace;
  result->state = CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t library, cublasLtMatmulDesc_t operation, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* packed, void* workspace, size_t workspace_bytes,
                              cudaStream_t stream) {
  if (const auto fault = planted("cublasLtMatmul"); fault != CUBLAS_STATUS_SUCCESS) return fault;
  if (library == nullptr || packed == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  cublasLtMatmulHeuristicResult_t checked{};
  if (const auto status = cublasLtMatmulAlgoCheck(library, operation, a_layout, b_layout, c_layout, d_layout,
                                                  packed, &checked);
      status != CUBLAS_STATUS_SUCCESS) {
    return status;
  }
  Product product{of(operation),
                  {of(a_layout), const_cast<void*>(a)},
                  {of(b_layout), const_cast<void*>(b)},
                  {of(c_layout), const_cast<void*>(c)},
                  {of(d_layout), d},
                  {},
                  *static_cast<const float*>(alpha),
                  *static_cast<const float*>(beta)};
  unpack(*packed, product.algorithm);
  for (const Matrix& matrix : {product.a, product.b, product.c, product.d}) {
    if (!aligned(matrix, product.algorithm.alignment)) return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (product.operation.bias_type == -1) {
    product.operation.bias_type = static_cast<int32_t>(product.d.layout.type);
  }
  const bool adds_bias = product.operation.epilogue == CUBLASLT_EPILOGUE_BIAS;
  if (adds_bias && product.operation.bias == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (workspace_bytes < product.algorithm.workspace ||
      (workspace == nullptr && product.algorithm.workspace > 0)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  ++counts().matmuls;
  if (product.algorithm.split_k != 1) ++counts().split_matmuls;
  counts().last_algorithm = product.algorithm.id;
  const cudaError_t queued = penstock::fake_cuda::enqueue(stream, [product, workspace] {
    // Scratch memory holds anything afterwards.
    if (product.algorithm.workspace > 0) std::memset(workspace, 0xA5, product.algorithm.workspace);
    compute(product);
  });
  return queued == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
