// What kernels may say, and what it means.
#include <array>
#include <functional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/simt/run.h"

namespace penstock::simt {
namespace {

constexpr unsigned everyone = 0xffffffffU;

class Language : public ::testing::TestWithParam<Order> {
 protected:
  Language() { set_order(GetParam()); }
  ~Language() override { set_order(Order::ascending); }
};

TEST_P(Language, EveryThreadOfEveryBlockHasItsIndices) {
  std::array<int, 12 * 24> seen{};
  run({"indices", dim3(2, 3, 2), dim3(4, 2, 3)}, [&] {
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    seen.at(block * blockDim.x * blockDim.y * blockDim.z + thread) += 1;
  });
  for (const int times : seen) EXPECT_EQ(times, 1);
}

TEST_P(Language, SharedMemoryPassesValuesBetweenThreads) {
  constexpr unsigned threads = 200;  // not whole warps
  std::vector<int> out(3 * threads);
  run({"reverse", dim3(3), dim3(threads), threads * sizeof(int)}, [&] {
    SHARED_ARRAY(int, first, threads);
    const cuda::Shared<int> second = cuda::dynamic_shared<int>();
    first[threadIdx.x] = static_cast<int>(threadIdx.x + 1000 * blockIdx.x);
    __syncthreads();
    second[threads - 1 - threadIdx.x] = first[threadIdx.x];
    __syncthreads();
    second[threadIdx.x] += 1;
    second[threadIdx.x] *= 2;
    out[blockIdx.x * threads + threadIdx.x] = second[threadIdx.x];
  });
  for (unsigned i = 0; i < out.size(); ++i) {
    EXPECT_EQ(out[i], static_cast<int>(2 * (1000 * (i / threads) + threads - i % threads)));
  }
}

TEST_P(Language, SharedVectorsOfFour) {
  float sum = 0;
  run_block(
      8,
      [&] {
        const cuda::Shared<float> memory = cuda::dynamic_shared<float>();
        const auto x = static_cast<float>(threadIdx.x);
        cuda::store4(memory + 4 * threadIdx.x, make_float4(x, 2 * x, 3 * x, 4 * x));
        __syncthreads();
        if (threadIdx.x != 0) return;
        for (int i = 0; i < 8; ++i) {
          const float4 four = cuda::load4(memory + 4 * i);
          sum += four.x + four.y + four.z + four.w + memory[4 * i + 3];
        }
      },
      128);
  EXPECT_EQ(sum, 14 * 28);
}

TEST_P(Language, BarriersVote) {
  int wrong = 0;
  run_block(96, [&] {
    const int own = threadIdx.x == 50 ? 1 : 0;
    const bool right = __syncthreads_or(own) == 1 && __syncthreads_or(0) == 0 &&
                       __syncthreads_and(own) == 0 && __syncthreads_and(1) == 1 &&
                       __syncthreads_count(own) == 1 && __syncthreads_count(1) == 96;
    atomicAdd(&wrong, right ? 0 : 1);
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(Language, ShufflesReachTheLanesThatTheySay) {
  int wrong = 0;
  run_block(64, [&] {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int value = static_cast<int>(threadIdx.x) * 10;
    const int warp = value - 10 * lane;
    const auto is = [&](int found, int source) { atomicAdd(&wrong, found == warp + 10 * source ? 0 : 1); };
    is(__shfl_sync(everyone, value, 5), 5);
    is(__shfl_sync(everyone, value, lane + 3, 8), lane / 8 * 8 + (lane + 3) % 8);
    is(__shfl_xor_sync(everyone, value, 9), lane ^ 9);
    is(__shfl_up_sync(everyone, value, 3), lane < 3 ? lane : lane - 3);
    is(__shfl_down_sync(everyone, value, 3), lane > 28 ? lane : lane + 3);
    is(__shfl_up_sync(everyone, value, 2, 16), lane % 16 < 2 ? lane : lane - 2);
    is(__shfl_down_sync(everyone, value, 2, 16), lane % 16 > 13 ? lane : lane + 2);
    atomicAdd(&wrong, __shfl_xor_sync(everyone, 0.5 * lane, 1) == 0.5 * (lane ^ 1) ? 0 : 1);
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(Language, DisjointMasksOfAWarpGoTheirOwnWays) {
  int wrong = 0;
  run_block(32, [&] {
    const auto lane = static_cast<int>(threadIdx.x);
    if (lane % 2 == 0) {
      for (int i = 0; i < 3; ++i) atomicAdd(&wrong, __shfl_sync(0x55555555U, lane + i, 4) == 4 + i ? 0 : 1);
      atomicAdd(&wrong, __all_sync(0x55555555U, 1) == 1 ? 0 : 1);
    } else {
      atomicAdd(&wrong, __shfl_xor_sync(0xaaaaaaaaU, lane, 2) == (lane ^ 2) ? 0 : 1);
      atomicAdd(&wrong, __ballot_sync(0xaaaaaaaaU, lane < 8 ? 1 : 0) == 0xaaU ? 0 : 1);
      atomicAdd(&wrong, __any_sync(0xaaaaaaaaU, 0) == 0 ? 0 : 1);
    }
    __syncwarp();
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(Language, AtomicsCount) {
  int count = 0;
  float sum = 0;
  unsigned long long largest = 0;
  int swapped = -1;
  run({"atomics", dim3(4), dim3(64)}, [&] {
    atomicAdd(&count, 1);
    atomicAdd(&sum, 0.5F);
    atomicMax(&largest, static_cast<unsigned long long>(threadIdx.x + blockIdx.x));
    atomicCAS(&swapped, -1, 7);
    atomicCAS(&swapped, -1, 8);
  });
  EXPECT_EQ(count, 256);
  EXPECT_EQ(sum, 128);
  EXPECT_EQ(largest, 66U);
  EXPECT_EQ(swapped, 7);
  EXPECT_EQ(atomicExch(&count, 3), 256);
  EXPECT_EQ(count, 3);
}

TEST_P(Language, HalfPrecisionTypesRound) {
  // 1 + 2⁻⁸ is halfway between two bf16 and goes to the even one; fp16 holds it.
  run_block(1, [] {
    EXPECT_EQ(__bfloat162float(__float2bfloat16_rn(1.0F + 0x1p-8F)), 1.0F);
    EXPECT_EQ(__bfloat162float(__float2bfloat16_rn(1.0F + 0x1.8p-7F)), 1.0F + 0x1p-6F);
    EXPECT_EQ(__half2float(__float2half_rn(1.0F + 0x1p-8F)), 1.0F + 0x1p-8F);
    EXPECT_EQ(__half2float(__float2half_rn(70000.0F)), INFINITY);
  });
}

TEST_P(Language, AReductionOfManyBlocksIsRight) {
  constexpr unsigned threads = 256;
  std::vector<int> sums(50);
  run({"reduction", dim3(50), dim3(threads)}, [&] {
    SHARED_ARRAY(int, of_warps, threads / 32);
    int sum = static_cast<int>(threadIdx.x * blockIdx.x);
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(everyone, sum, distance);
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int warp = 0; warp < 8; ++warp) sums[blockIdx.x] += of_warps[warp];
    }
  });
  for (unsigned block = 0; block < 50; ++block) {
    EXPECT_EQ(sums[block], static_cast<int>(block * threads * (threads - 1) / 2));
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, Language,
                         ::testing::Values(Order::ascending, Order::descending, Order::shuffled));

TEST(Order, IsWhatTheThreadsTake) {
  const auto turns = [](Order order) {
    set_order(order);
    std::vector<unsigned> taken(8);
    unsigned turn = 0;
    run({"order", dim3(2), dim3(4)}, [&] { taken[atomicAdd(&turn, 1)] = 10 * blockIdx.x + threadIdx.x; });
    set_order(Order::ascending);
    return taken;
  };
  EXPECT_EQ(turns(Order::ascending), (std::vector<unsigned>{0, 1, 2, 3, 10, 11, 12, 13}));
  EXPECT_EQ(turns(Order::descending), (std::vector<unsigned>{13, 12, 11, 10, 3, 2, 1, 0}));
  EXPECT_NE(turns(Order::shuffled), turns(Order::shuffled));
}

void write_index(int* to, int value) {
  to[threadIdx.x] = value;
}

TEST(Launch, HandsKernelsWithTheirArgumentsToTheLauncher) {
  std::vector<int> out(4);
  const cuda::LaunchShape shape{.threads = 4};
  cuda::launch("write_index", write_index, shape, nullptr, out.data(), 7);
  EXPECT_EQ(out, (std::vector<int>{7, 7, 7, 7}));

  std::vector<std::function<void()>> queued;
  set_launcher([&](void* /*stream*/, std::function<void()> kernel) { queued.push_back(std::move(kernel)); });
  for (int value : {8, 9}) cuda::launch("write_index", write_index, shape, nullptr, out.data(), value);
  cuda::launch("nothing", write_index, {.blocks_x = 0}, nullptr, out.data(), 1);
  set_launcher([](void* /*stream*/, const std::function<void()>& kernel) { kernel(); });
  EXPECT_EQ(queued.size(), 2U);
  EXPECT_EQ(out[0], 7);
  queued[0]();
  EXPECT_EQ(out[0], 8);
  queued[1]();
  EXPECT_EQ(out[3], 9);
}

}  // namespace
}  // namespace penstock::simt
