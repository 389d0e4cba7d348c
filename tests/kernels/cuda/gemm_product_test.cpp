#include "kernels/cuda/gemm_product.h"

#include <cmath>

#include <gmock/gmock.h>

#include "kernels/device/error.h"
#include "tests/kernels/cuda/gemm_fixture.h"
#include "tests/kernels/math/operation.h"

namespace penstock::testing {
namespace {

using cuda::GemmShape;
using ::testing::HasSubstr;

constexpr GemmShape plain{.rows = 16, .columns = 24, .depth = 32};

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(a[i] - b[i], 2);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

class GemmProductTest : public GemmTest {
 protected:
  /// What `shape` fails with with these faults.
  std::string failure(const GemmShape& shape) {
    return message_of<DeviceError>([&] { run(*create()->plan(shape), shape); });
  }
};

TEST_F(GemmProductTest, Tf32RoundsTheInputsOfFp32Products) {
  GemmShape rounded = plain;
  rounded.tf32 = true;
  const auto library = create({.tf32 = true});
  const std::vector<double> fp32 = run(*library->plan(plain), plain);
  const std::vector<double> tf32 = run(*library->plan(rounded), rounded);
  EXPECT_GT(distance(tf32, fp32), 1e-5);
  EXPECT_LT(distance(tf32, fp32), 1e-3);
}

TEST_F(GemmProductTest, BiasIsAddedByAKernelWhereNoAlgorithmDoes) {
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp16}) {
    GemmShape shape = plain;
    shape.bias = true;
    shape.in = dtype;
    shape.out = dtype;
    faults().no_bias_epilogue = false;
    const auto with = create();
    const std::vector<double> expected = run(*with->plan(shape), shape);
    EXPECT_TRUE(with->plans().find(shape)->bias_in_epilogue);
    faults().no_bias_epilogue = true;
    const auto without = create();
    EXPECT_LE(distance(run(*without->plan(shape), shape), expected), tolerance(dtype));
    EXPECT_FALSE(without->plans().find(shape)->bias_in_epilogue);
  }
}

TEST_F(GemmProductTest, FailuresOfTheLibraryAreNamed) {
  faults().fails = {{"cublasLtCreate", CUBLAS_STATUS_NOT_INITIALIZED}};
  EXPECT_EQ(
      failure(plain),
      "cublasLtCreate on " + device_->description() +
          ": CUBLAS_STATUS_NOT_INITIALIZED (the fake library was told so, or does not like it); the device "
          "is not usable: `nvidia-smi` shows the driver, `penstock --version` the CUDA release of this "
          "build");
  faults().fails = {{"cublasLtMatmulDescCreate", CUBLAS_STATUS_ALLOC_FAILED}};
  EXPECT_THAT(failure(plain),
              HasSubstr("cublasLtMatmulDescCreate for fp32 (16, 24) = fp32 (16, 32) · (32, 24): "
                        "CUBLAS_STATUS_ALLOC_FAILED"));
  EXPECT_THAT(failure(plain), HasSubstr("memory is short: give the libraries room"));
  faults().fails = {{"cublasLtMatrixLayoutCreate", CUBLAS_STATUS_ALLOC_FAILED}};
  EXPECT_THAT(failure(plain), HasSubstr("cublasLtMatrixLayoutCreate for fp32 (16, 24) = "));
  faults().fails = {{"cublasLtMatmulPreferenceCreate", CUBLAS_STATUS_ALLOC_FAILED}};
  EXPECT_THAT(failure(plain), HasSubstr("cublasLtMatmulPreferenceCreate for fp32 (16, 24) = "));
  faults().fails = {{"cublasLtMatmulDescSetAttribute", CUBLAS_STATUS_INVALID_VALUE}};
  EXPECT_THAT(failure(plain), HasSubstr("cublasLtMatmulDescSetAttribute TRANSA for fp32 (16, 24) = "));
  faults().fails = {{"cublasLtMatmulAlgoGetHeuristic", CUBLAS_STATUS_ALLOC_FAILED}};
  EXPECT_THAT(failure(plain), HasSubstr("cublasLtMatmulAlgoGetHeuristic for fp32 (16, 24) = "));
  faults().fails = {{"cublasLtMatmulAlgoCheck", CUBLAS_STATUS_ARCH_MISMATCH}};
  EXPECT_THAT(failure(plain), HasSubstr("by algorithm 0, tile 20, stages 0, cluster 0, 0 bytes of workspace: "
                                        "CUBLAS_STATUS_ARCH_MISMATCH"));
  faults().fails = {{"cublasLtMatmul", CUBLAS_STATUS_EXECUTION_FAILED}};
  EXPECT_THAT(failure(plain),
              HasSubstr("cublasLtMatmul for fp32 (16, 24) = fp32 (16, 32) · (32, 24) by algorithm 0"));
  EXPECT_THAT(failure(plain), HasSubstr("a kernel failed, this one or one before it"));
}

TEST_F(GemmProductTest, WhereNoAlgorithmIsLeftTheMessageSaysWhatWasAsked) {
  const std::string expected =
      "matrix product fp32 (16, 24) = fp32 (16, 32) · (32, 24): cuBLASLt " + std::to_string(CUBLAS_VERSION) +
      " has no algorithm for it on " + device_->description() +
      " that takes at most 33554432 bytes of workspace and adds each sum in one piece; "
      "another release of cuBLASLt, or sizes that are multiples of 8, may help";
  faults().no_algorithm = true;
  EXPECT_EQ(failure(plain), expected);
  faults().no_algorithm = false;
  faults().fails = {{"cublasLtMatmulAlgoGetHeuristic", CUBLAS_STATUS_NOT_SUPPORTED}};
  EXPECT_EQ(failure(plain), expected);
}

TEST_F(GemmProductTest, WorkspaceStaysWithinItsLimit) {
  GemmShape narrow = plain;
  narrow.columns = 2;  // 8 bytes a row: the algorithm that asks for most is the library's first
  const auto roomy = create();
  EXPECT_EQ(roomy->plan(narrow)->workspace_bytes(), 65536U);
  const auto tight = create({.workspace_limit = 1024});
  EXPECT_EQ(tight->plan(narrow)->workspace_bytes(), 256U);
  run(*tight->plan(narrow), narrow);
}

TEST_F(GemmProductTest, MatricesOffTheirAlignmentAreRefused) {
  std::vector<float> memory(4096);
  const auto product = create()->plan(plain);
  auto address = reinterpret_cast<uintptr_t>(memory.data());
  float* const aligned_at = memory.data() + (16 - address % 16) % 16 / sizeof(float);
  EXPECT_THAT(message_of<UsageError>([&] {
                product->run(*stream_, aligned_at, aligned_at + 1025, nullptr, aligned_at + 2048, nullptr);
              }),
              HasSubstr("fp32 (16, 24) = fp32 (16, 32) · (32, 24): b is at "));
  EXPECT_EQ(counts().matmuls, 0);
}

}  // namespace
}  // namespace penstock::testing
