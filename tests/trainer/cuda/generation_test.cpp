// Texts by the CUDA backend, over the fake runtime: the processor's.
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/trainer/cuda/on_cuda.h"
#include "tests/trainer/generated_texts.h"

namespace penstock {
namespace {

TEST_F(TrainingTest, CudaWritesTheProcessorsTexts) {
  fake_cuda::reset();
  const std::vector<std::string> llama{"run.steps=3", "model.family=llama", "model.kv_heads=2",
                                       "model.ffn_hidden_size=48"};
  std::vector<std::string> cpu = llama;
  cpu.emplace_back("parallel.device=cpu");
  ASSERT_EQ(train(job("run", cpu), {}), ExitCode::finished);
  TokenChoice choice;
  choice.temperature = 0;
  const Texts prompts{{5}, {1, 2, 3, 4, 5, 6}, {9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9}};
  const Texts expected = continued(job("run", cpu), prompts, 20, choice, 2);
  EXPECT_EQ(continued(job("run", on_cuda(llama)), prompts, 20, choice, 2), expected);
  std::vector<std::string> two = llama;
  two.emplace_back("parallel.pipeline=2");
  EXPECT_EQ(continued(job("run", on_cuda(two)), prompts, 20, choice, 2), expected);
  EXPECT_EQ(fake_cuda::lost_because(), "");
}

}  // namespace
}  // namespace penstock
