#include "kernels/cuda/choose_attention.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "kernels/cpu/device.h"
#include "kernels/cuda/make_math.h"
#include "kernels/device/error.h"
#include "tests/fake_cuda/cublaslt/faults.h"
#include "tests/kernels/math/under_test.h"

namespace penstock::testing {
namespace {

using cuda::choose_attention;
using math::AttentionShape;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Writes who was called.
class NamedPlan final : public math::AttentionPlan {
 public:
  NamedPlan(std::string name, size_t workspace, const AttentionShape& shape, std::vector<std::string>& calls)
      : name_(std::move(name)), workspace_(workspace), shape_(shape), calls_(calls) {}
  const AttentionShape& shape() const override { return shape_; }
  size_t workspace_bytes() const override { return workspace_; }
  void forward(Stream&, Tensor, Tensor, Tensor, Tensor, Tensor) override {
    calls_.push_back(name_ + " forward");
  }
  void backward(Stream&, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor) override {
    calls_.push_back(name_ + " backward");
  }

 private:
  std::string name_;
  size_t workspace_;
  AttentionShape shape_;
  std::vector<std::string>& calls_;
};

class NamedAttention final : public math::Attention {
 public:
  NamedAttention(std::string name, size_t workspace, int64_t most_channels, std::vector<std::string>& calls)
      : name_(std::move(name)), workspace_(workspace), most_channels_(most_channels), calls_(calls) {}
  math::Support supports(const AttentionShape& shape) const override {
    if (shape.head_dim <= most_channels_) return math::Support::yes();
    return math::Support::no(name_ + " has no such heads");
  }
  std::unique_ptr<math::AttentionPlan> plan(const AttentionShape& shape) override {
    return std::make_unique<NamedPlan>(name_, workspace_, shape, calls_);
  }

 private:
  std::string name_;
  size_t workspace_;
  int64_t most_channels_;
  std::vector<std::string>& calls_;
};

class ChooseAttention : public ::testing::Test {
 protected:
  std::unique_ptr<math::Attention> choose(CudaAttention choice, bool with_cudnn = true) {
    cuda::OptionalAttention cudnn;
    if (with_cudnn) cudnn.attention = std::make_unique<NamedAttention>("cudnn", 100, 64, calls_);
    cudnn.description = with_cudnn ? "cuDNN 9" : "cuDNN does not load";
    return choose_attention(choice, std::move(cudnn),
                            std::make_unique<NamedAttention>("native", 30, 128, calls_),
                            [this](const std::string& line) { lines_.push_back(line); });
  }
  /// Forward without borders, backward with them.
  void run(math::AttentionPlan& plan) {
    int border = 0;
    plan.forward(*stream_, {}, {}, {}, {}, {});
    plan.backward(*stream_, {}, {}, Tensor(&border, DType::i32, {1}), {}, {}, {}, {});
  }

  std::unique_ptr<Device> device_ = cpu::make_cpu_device(under_test::choose_variant(0));
  std::unique_ptr<Stream> stream_ = device_->create_stream("compute", StreamUse::compute);
  std::vector<std::string> calls_;
  std::vector<std::string> lines_;
  const AttentionShape small_{2, 8, 4, 2, 64, DType::bf16};
  const AttentionShape large_{2, 8, 4, 2, 128, DType::bf16};
};

TEST_F(ChooseAttention, CudnnWhereItIsAndCanAndBuiltInKernelsForDocuments) {
  for (const CudaAttention choice : {CudaAttention::automatic, CudaAttention::cudnn}) {
    calls_.clear();
    const auto plan = choose(choice)->plan(small_);
    EXPECT_EQ(plan->workspace_bytes(), 100U);
    run(*plan);
    EXPECT_THAT(calls_, ElementsAre("cudnn forward", "native backward"));
  }
  EXPECT_EQ(lines_.front(),
            "attention, bf16 2 sequences of 8 tokens, 4 heads over 2 of 64 channels: cuDNN 9; where "
            "documents border, "
            "built-in kernels");
}

TEST_F(ChooseAttention, BuiltInKernelsWhereCudnnCannotAndWhereTheyAreAskedFor) {
  run(*choose(CudaAttention::automatic)->plan(large_));
  run(*choose(CudaAttention::automatic, false)->plan(small_));
  run(*choose(CudaAttention::native)->plan(small_));
  EXPECT_THAT(calls_, ElementsAre("native forward", "native backward", "native forward", "native backward",
                                  "native forward", "native backward"));
  ASSERT_EQ(lines_.size(), 2U);
  EXPECT_THAT(lines_[0], HasSubstr("built-in kernels (cudnn has no such heads)"));
  EXPECT_THAT(lines_[1], HasSubstr("built-in kernels (cuDNN does not load)"));
}

TEST_F(ChooseAttention, WhoInsistsOnCudnnLearnsWhyItIsNotUsed) {
  const auto attention = choose(CudaAttention::cudnn);
  EXPECT_EQ(
      attention->supports(large_).reason,
      "cudnn has no such heads; set `cuda.attention` to \"auto\" or \"native\" for the built-in kernels");
  EXPECT_THROW(attention->plan(large_), DeviceError);
  try {
    choose(CudaAttention::cudnn, false);
    FAIL() << "there is no cuDNN";
  } catch (const DeviceError& error) {
    EXPECT_STREQ(
        error.what(),
        "`cuda.attention` is \"cudnn\", but cuDNN does not load; set it to \"auto\" or \"native\" for the "
        "built-in kernels");
  }
}

TEST_F(ChooseAttention, EveryFamilyIsMade) {
  fake_cublaslt::reset();
  {
    const auto library = cuda::GemmLibrary::create(*device_, {});
    const math::Math math = cuda::make_math(*device_, library, {});
    ASSERT_TRUE(math.gemm && math.norm && math.attention && math.pointwise);
    ASSERT_TRUE(math.embedding && math.head && math.optimizer && math.reduce);
    math.gemm->plan_linear({.tokens = 16, .in = 8, .out = 24, .dtype = DType::bf16, .bias = true});
    math.head->plan({.tokens = 16, .hidden = 8, .rows = 64, .vocab = 61, .dtype = DType::bf16});
    EXPECT_EQ(library->plans().table().size(), 3U + 3U + 2U) << "linear; head; its generation by 8 and by 1";
    EXPECT_TRUE(math.attention->supports(small_));
    EXPECT_THAT([&] { (void)cuda::make_math(*device_, library, {.attention = CudaAttention::cudnn}); },
                ::testing::ThrowsMessage<DeviceError>(HasSubstr("this build has no cuDNN")));
  }
  EXPECT_EQ(fake_cublaslt::counts().handles, 0);
}

}  // namespace
}  // namespace penstock::testing
