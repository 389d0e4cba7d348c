// What a GPU has room for.
#include <gmock/gmock.h>

#include "tests/fake_cuda/fake_cuda.h"
#include "tests/trainer/cuda/on_cuda.h"
#include "trainer/memory_limit.h"

namespace penstock {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr size_t mebibyte = size_t{1} << 20;

class GpuMemoryTest : public TrainingTest {
 protected:
  GpuMemoryTest() { fake_cuda::reset(); }
  ~GpuMemoryTest() override { fake_cuda::reset(); }

  std::string refusal(const std::vector<std::string>& more) {
    try {
      train(job(fmt::format("run{}", ++runs_), on_cuda(more)), {});
    } catch (const MemoryLimitError& error) {
      return error.what();
    }
    return "";
  }

  int runs_ = 0;
};

TEST_F(GpuMemoryTest, APlanMayFillWhatTheGpuHasLeft) {
  fake_cuda::reset({.gpus = 2, .memory = 2048 * mebibyte});
  const Job alone = job("run", on_cuda());
  Backend backend = make_backend(alone, 0);
  EXPECT_EQ(device_memory_limit(alone, *backend.device, 8),
            static_cast<int64_t>(2048 * mebibyte - gpu_reserve))
      << "eight ranks, a GPU each";
  backend.device->create_arena(ArenaTag::workspace, 1024 * mebibyte);
  EXPECT_EQ(device_memory_limit(alone, *backend.device, 1),
            static_cast<int64_t>(1024 * mebibyte - gpu_reserve));
  backend.device->destroy_arena(ArenaTag::workspace);
  const Job shared = job("run", on_cuda({"parallel.share_devices=true"}));
  EXPECT_EQ(device_memory_limit(shared, *backend.device, 5),
            static_cast<int64_t>(2048 * mebibyte / 3 - gpu_reserve))
      << "five ranks on two GPUs: three on one";
  const Job limited = job("run", on_cuda({"parallel.memory_limit_gib=0.5"}));
  EXPECT_EQ(device_memory_limit(limited, *backend.device, 1),
            device_memory_limit(limited, *backend.device, 4));
}

TEST_F(GpuMemoryTest, ARunThatDoesNotFitIsRefusedWithTheNumbers) {
  fake_cuda::reset({.gpus = 2, .memory = gpu_reserve + 100000});
  EXPECT_THAT(refusal({"batch.micro=2"}),
              AllOf(HasSubstr("a rank needs"), HasSubstr(fmt::format("{} bytes) of", gpu_reserve + 100000)),
                    HasSubstr("Fake GPU"), HasSubstr("nvidia-smi"), HasSubstr("lower batch.micro (it is 2)"),
                    Not(HasSubstr("ranks share"))));
  EXPECT_EQ(fake_cuda::allocated(0), 0u) << "before arenas are made";
}

TEST_F(GpuMemoryTest, RanksOnOneGpuNeedItTogether) {
  // Room for one rank, but not for two.
  fake_cuda::reset({.gpus = 1, .memory = gpu_reserve + 64 * mebibyte});
  EXPECT_EQ(refusal({"run.steps=1"}), "");
  EXPECT_THAT(refusal({"run.steps=1", "parallel.pipeline=2", "parallel.share_devices=true"}),
              HasSubstr("2 ranks share a GPU and need"));
  fake_cuda::reset({.gpus = 1, .memory = 2 * (gpu_reserve + 64 * mebibyte)});
  EXPECT_EQ(refusal({"run.steps=1", "parallel.pipeline=2", "parallel.share_devices=true"}), "");
}

}  // namespace
}  // namespace penstock
