#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu/device.h"
#include "kernels/cuda/gemm_product.h"
#include "tests/fake_cuda/cublaslt/faults.h"
#include "tests/kernels/math/guarded_buffer.h"
#include "tests/kernels/math/under_test.h"

namespace penstock::testing {

/// Products on the fake cuBLASLt, which is as new before each test and holds nothing of ours after it.
class GemmTest : public ::testing::Test {
 protected:
  GemmTest() { fake_cublaslt::reset(); }
  ~GemmTest() override {
    EXPECT_EQ(fake_cublaslt::counts().handles, 0);
    EXPECT_EQ(fake_cublaslt::counts().descriptors, 0);
    fake_cublaslt::reset();
  }

  static fake_cublaslt::Faults& faults() { return fake_cublaslt::faults(); }
  static fake_cublaslt::Counts& counts() { return fake_cublaslt::counts(); }

  std::shared_ptr<cuda::GemmLibrary> create(cuda::GemmOptions options = {}) {
    return cuda::GemmLibrary::create(*device_, std::move(options));
  }

  /// y of a run on fixed random inputs, of fp32 or bf16.
  std::vector<double> run(cuda::GemmProduct& product, const cuda::GemmShape& shape) {
    std::mt19937_64 random(7);
    std::normal_distribution<double> normal;
    const auto filled = [&](const char* name, DType dtype, int64_t rows, int64_t columns) {
      auto buffer = std::make_unique<GuardedBuffer>(name, dtype, Shape{rows, columns}, 0);
      std::vector<double> values(static_cast<size_t>(rows * columns));
      for (double& value : values) value = normal(random);
      buffer->write(values);
      return buffer;
    };
    const auto a = filled("a", shape.in, shape.rows, shape.depth);
    const auto b = filled("b", shape.in, shape.depth, shape.columns);
    const auto bias = filled("bias", DType::fp32, 1, shape.columns);
    const auto y = filled("y", shape.out, shape.rows, shape.columns);
    GuardedBuffer workspace("workspace", DType::u8, {static_cast<int64_t>(product.workspace_bytes())}, 0);
    product.run(*stream_, a->tensor().data, b->tensor().data, bias->tensor().as<const float>(),
                y->tensor().data, workspace.tensor().data);
    stream_->synchronize();
    for (const GuardedBuffer* buffer : {a.get(), b.get(), bias.get(), y.get(), &workspace}) {
      buffer->check_guards();
    }
    return y->read();
  }

  std::unique_ptr<Device> device_ = cpu::make_cpu_device(under_test::choose_variant(0));
  std::unique_ptr<Stream> stream_ = device_->create_stream("compute", StreamUse::compute);
};

/// What `body` throws, or "nothing".
template <class Error, class Body>
std::string message_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace penstock::testing
