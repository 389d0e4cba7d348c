#include "kernels/cuda/gemm_operation.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock::cuda {
namespace {

static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(GemmPlan::algorithm));

/// Vector accesses and bulk copies of the library ask for no more.
constexpr int64_t most_alignment = 16;
constexpr uint32_t bias_alignment = 16;

/// Of any row of a matrix that starts at an aligned tensor: bytes.
uint32_t row_alignment(int64_t columns, DType dtype) {
  const int64_t bytes = columns * static_cast<int64_t>(size_of(dtype));
  return static_cast<uint32_t>(std::min(most_alignment, bytes & -bytes));
}

/// A matrix of `rows` rows of `columns`, contiguous: to the library, columns of its transpose.
LtLayout layout(const GemmShape& shape, DType dtype, int64_t rows, int64_t columns) {
  cublasLtMatrixLayout_t made = nullptr;
  check_cublas(cublasLtMatrixLayoutCreate(&made, cublas_type(dtype), static_cast<uint64_t>(columns),
                                          static_cast<uint64_t>(rows), columns),
               "cublasLtMatrixLayoutCreate for", to_string(shape));
  return LtLayout(made);
}

LtOperation operation(const GemmShape& shape) {
  cublasLtMatmulDesc_t made = nullptr;
  check_cublas(cublasLtMatmulDescCreate(&made, shape.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                        CUDA_R_32F),
               "cublasLtMatmulDescCreate for", to_string(shape));
  return LtOperation(made);
}

template <class T>
int64_t attribute(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t which,
                  const GemmShape& shape) {
  T value{};
  size_t written = 0;
  check_cublas(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, which, &value, sizeof value, &written),
               fmt::format("cublasLtMatmulAlgoConfigGetAttribute {} for", static_cast<int>(which)),
               to_string(shape));
  return static_cast<int64_t>(value);
}

GemmPlan plan_of(const cublasLtMatmulHeuristicResult_t& result, const GemmShape& shape,
                 bool bias_in_epilogue) {
  const cublasLtMatmulAlgo_t& algorithm = result.algo;
  GemmPlan plan;
  std::memcpy(plan.algorithm.data(), &algorithm, sizeof algorithm);
  plan.workspace_bytes = result.workspaceSize;
  plan.bias_in_epilogue = bias_in_epilogue;
  plan.id = attribute<int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_ID, shape);
  plan.tile = attribute<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID, shape);
  plan.stages = attribute<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_STAGES_ID, shape);
  plan.split_k = attribute<int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, shape);
  plan.reduction = attribute<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, shape);
  plan.swizzle = attribute<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, shape);
  plan.custom = attribute<uint32_t>(algorithm, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, shape);
  plan.inner_shape = attribute<uint16_t>(algorithm, CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, shape);
  plan.cluster = attribute<uint16_t>(algorithm, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, shape);
  return plan;
}

bool splits_sums(const GemmPlan& plan) {
  return plan.split_k > 1 || plan.split_k < 0 || plan.reduction != CUBLASLT_REDUCTION_SCHEME_NONE;
}

cublasLtMatmulAlgo_t algorithm_of(const GemmPlan& plan) {
  cublasLtMatmulAlgo_t algorithm;
  std::memcpy(&algorithm, plan.algorithm.data(), sizeof algorithm);
  return algorithm;
}

void check_alignment(const GemmShape& shape, const char* name, const void* pointer, uint32_t alignment) {
  if (reinterpret_cast<uintptr_t>(pointer) % alignment == 0) return;
  throw UsageError(fmt::format("{}: {} is at {}; expected a multiple of {} bytes", to_string(shape), name,
                               pointer, alignment));
}

}  // namespace

GemmOperation::GemmOperation(cublasLtHandle_t library, const GemmShape& shape, bool bias_in_epilogue)
    : library_(library),
      shape_(shape),
      bias_in_epilogue_(shape.bias && bias_in_epilogue),
      operation_(operation(shape)) {
  const auto& [M, N, K, in, out, a_transposed, b_transposed, bias, accumulate, tf32] = shape;
  b_ = b_transposed ? layout(shape, in, N, K) : layout(shape, in, K, N);
  a_ = a_transposed ? layout(shape, in, K, M) : layout(shape, in, M, K);
  y_ = layout(shape, out, M, N);
  b_alignment_ = row_alignment(b_transposed ? K : N, in);
  a_alignment_ = row_alignment(a_transposed ? M : K, in);
  y_alignment_ = row_alignment(N, out);

  const int32_t b_operation = b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const int32_t a_operation = a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  set(CUBLASLT_MATMUL_DESC_TRANSA, &b_operation, sizeof b_operation, "TRANSA");
  set(CUBLASLT_MATMUL_DESC_TRANSB, &a_operation, sizeof a_operation, "TRANSB");
  if (bias_in_epilogue_) {
    const uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    const auto type = static_cast<int32_t>(cublas_type(out));
    // Not read while planning, but its alignment is.
    const auto* const place = reinterpret_cast<const void*>(uintptr_t{bias_alignment});
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue, "EPILOGUE");
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type, "BIAS_DATA_TYPE");
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, &place, sizeof place, "BIAS_POINTER");
  }
}

void GemmOperation::set(cublasLtMatmulDescAttributes_t attribute, const void* value, size_t bytes,
                        const char* what) {
  check_cublas(cublasLtMatmulDescSetAttribute(operation_.get(), attribute, value, bytes),
               fmt::format("cublasLtMatmulDescSetAttribute {} for", what), to_string(shape_));
}

std::vector<GemmPlan> GemmOperation::proposals(size_t workspace_limit, int most) const {
  cublasLtMatmulPreference_t made = nullptr;
  check_cublas(cublasLtMatmulPreferenceCreate(&made), "cublasLtMatmulPreferenceCreate for",
               to_string(shape_));
  const LtPreference preference(made);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check_cublas(cublasLtMatmulPreferenceSetAttribute(made, attribute, &value, sizeof value),
                 fmt::format("cublasLtMatmulPreferenceSetAttribute {} for", static_cast<int>(attribute)),
                 to_string(shape_));
  };
  const uint64_t workspace = workspace_limit;
  const uint32_t no_reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, no_reduction);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, b_alignment_);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, a_alignment_);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, y_alignment_);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, y_alignment_);

  // Some of them may split sums after all.
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<size_t>(most) + 16);
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(library_, operation_.get(), b_.get(), a_.get(), y_.get(), y_.get(), made,
                                     static_cast<int>(results.size()), results.data(), &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  check_cublas(status, "cublasLtMatmulAlgoGetHeuristic for", to_string(shape_));
  results.resize(static_cast<size_t>(found));
  std::vector<GemmPlan> plans;
  for (const cublasLtMatmulHeuristicResult_t& result : results) {
    if (result.state != CUBLAS_STATUS_SUCCESS || result.workspaceSize > workspace_limit) continue;
    const GemmPlan plan = plan_of(result, shape_, bias_in_epilogue_);
    if (!splits_sums(plan)) plans.push_back(plan);
    if (plans.size() == static_cast<size_t>(most)) break;
  }
  return plans;
}

void GemmOperation::check(const GemmPlan& plan) const {
  const std::string what = fmt::format("{} by {}", to_string(shape_), to_string(plan));
  if (splits_sums(plan)) {
    throw DeviceError(fmt::format("{}: sums are split into {} parts (reduction {}); expected whole ones",
                                  what, plan.split_k, plan.reduction));
  }
  const cublasLtMatmulAlgo_t algorithm = algorithm_of(plan);
  cublasLtMatmulHeuristicResult_t result{};
  check_cublas(cublasLtMatmulAlgoCheck(library_, operation_.get(), b_.get(), a_.get(), y_.get(), y_.get(),
                                       &algorithm, &result),
               "cublasLtMatmulAlgoCheck for", what);
  if (result.workspaceSize > plan.workspace_bytes) {
    throw DeviceError(
        fmt::format("{}: the algorithm needs {} bytes of workspace here; expected what is planned", what,
                    result.workspaceSize));
  }
}

void GemmOperation::enqueue(StreamHandle stream, const GemmPlan& plan, const void* a, const void* b,
                            const void* bias, void* y, void* workspace) {
  check_alignment(shape_, "a", a, a_alignment_);
  check_alignment(shape_, "b", b, b_alignment_);
  check_alignment(shape_, "y", y, y_alignment_);
  if (bias_in_epilogue_) {
    check_alignment(shape_, "bias", bias, bias_alignment);
    check_cublas(cublasLtMatmulDescSetAttribute(operation_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                                sizeof bias),
                 "cublasLtMatmulDescSetAttribute BIAS_POINTER for", "a matrix product");
  }
  const float one = 1;
  const float kept = shape_.accumulate ? 1 : 0;  // of what y holds
  const cublasLtMatmulAlgo_t algorithm = algorithm_of(plan);
  const cublasStatus_t status =
      cublasLtMatmul(library_, operation_.get(), &one, b, b_.get(), a, a_.get(), &kept, y, y_.get(), y,
                     y_.get(), &algorithm, workspace, plan.workspace_bytes, stream);
  // The text allocates.
  if (status != CUBLAS_STATUS_SUCCESS) {
    check_cublas(status, "cublasLtMatmul for", fmt::format("{} by {}", to_string(shape_), to_string(plan)));
  }
}

}  // namespace penstock::cuda
