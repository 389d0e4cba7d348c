// The models of tensor-core and asynchronous copy instructions, and planted bugs around them.
#include "kernels/cuda/tensor_core.cuh"

#include <array>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cuda/async_copy.cuh"
#include "tests/simt/run.h"

namespace penstock::simt {
namespace {

using cuda::Shared;
using ::testing::AllOf;
using ::testing::HasSubstr;

int lane() {
  return static_cast<int>(threadIdx.x) % 32;
}

template <class T>
void check_product() {
  // a (16,16) · b (16,8) of small integers, exact in any order.
  const auto a_at = [](int row, int column) { return static_cast<float>((3 * row + 5 * column) % 7 - 3); };
  const auto b_at = [](int row, int column) { return static_cast<float>((2 * row + column) % 5 - 2); };
  std::array<std::array<float, 8>, 16> found{};
  run_block(64, [&] {
    const int g = lane() / 4;
    const int t = lane() % 4 * 2;
    const auto a_word = [&](int row, int column) {
      return cuda::pack<T>(a_at(row, column), a_at(row, column + 1));
    };
    const auto b_word = [&](int row) { return cuda::pack<T>(b_at(row, g), b_at(row + 1, g)); };
    const uint32_t a[4] = {a_word(g, t), a_word(g + 8, t), a_word(g, t + 8), a_word(g + 8, t + 8)};
    float c[4] = {1, 1, 1, 1};
    cuda::multiply_matrices<T>(c, a, b_word(t), b_word(t + 8));
    if (threadIdx.x >= 32) return;
    for (int i = 0; i < 4; ++i)
      found[static_cast<size_t>(g + i / 2 * 8)][static_cast<size_t>(t + i % 2)] = c[i];
  });
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      float expected = 1;
      for (int k = 0; k < 16; ++k) expected += a_at(row, k) * b_at(k, column);
      EXPECT_EQ(found[static_cast<size_t>(row)][static_cast<size_t>(column)], expected)
          << row << ", " << column;
    }
  }
}

TEST(TensorCore, MultipliesAsItsFragmentsAreDocumented) {
  check_product<bfloat16>();
  check_product<float16>();
}

// Four matrices (8,8) beneath one another, element (row, column) of matrix m is 64 m + 8 row + column.
void fill(Shared<bfloat16> memory) {
  for (int i = lane(); i < 256; i += 32) memory[i] = bfloat16(static_cast<float>(i));
  __syncthreads();
}

TEST(TensorCore, LoadsMatricesAndTheirTransposes) {
  int wrong = 0;
  run_block(
      32,
      [&] {
        const Shared<bfloat16> memory = cuda::dynamic_shared<bfloat16>();
        fill(memory);
        const int g = lane() / 4;
        const int t = lane() % 4 * 2;
        uint32_t plain[4];
        uint32_t turned[4];
        cuda::load_matrices(plain, memory + 8 * lane());
        cuda::load_transposed(turned, memory + 8 * lane());
        for (int m = 0; m < 4; ++m) {
          const auto at = [&](int row, int column) { return static_cast<float>(64 * m + 8 * row + column); };
          if (plain[m] != cuda::pack<bfloat16>(at(g, t), at(g, t + 1))) ++wrong;
          if (turned[m] != cuda::pack<bfloat16>(at(t, g), at(t + 1, g))) ++wrong;
        }
      },
      512);
  EXPECT_EQ(wrong, 0);
}

TEST(TensorCore, PlantedBugsAreNamed) {
  EXPECT_THAT(fault_of(32,
                       [] {
                         if (threadIdx.x == 9) return;
                         float c[4] = {};
                         const uint32_t a[4] = {};
                         cuda::multiply_matrices<bfloat16>(c, a, 0, 0);
                       }),
              AllOf(HasSubstr("lane missing"), HasSubstr("tensor_core_test.cpp:")));
  const auto load_at = [](int elements) {
    return fault_of(
        32,
        [elements] {
          const Shared<bfloat16> memory = cuda::dynamic_shared<bfloat16>();
          fill(memory);
          uint32_t words[4];
          cuda::load_matrices(words, memory + (8 * lane() + elements));
        },
        512);
  };
  EXPECT_EQ(load_at(0), "");
  EXPECT_THAT(load_at(1), HasSubstr("not aligned to 16 bytes"));
  EXPECT_THAT(load_at(8), HasSubstr("outside dynamic shared memory"));
}

// Copies 16 bytes a thread twice over, as kernels with two stages do, and returns what it found wrong.
std::string copied(bool waits, bool synchronises, int groups_left = 0) {
  alignas(16) static std::array<std::array<uint32_t, 128>, 2> source;
  for (uint32_t i = 0; i < 256; ++i) source[i / 128][i % 128] = i;
  int wrong = 0;
  const std::string fault = fault_of(
      32,
      [&] {
        const Shared<uint32_t> memory = cuda::dynamic_shared<uint32_t>();
        for (const auto& stage : source) {
          cuda::copy_async(memory + 4 * lane(), stage.data() + 4 * lane(), true);
          cuda::commit_async();
          if (waits) groups_left == 0 ? cuda::wait_async<0>() : cuda::wait_async<1>();
          if (synchronises) __syncthreads();
          if (memory[(4 * lane() + 4) % 128] != stage[static_cast<size_t>((4 * lane() + 4) % 128)]) ++wrong;
          __syncthreads();
        }
      },
      512);
  return fault.empty() && wrong > 0 ? "wrong values" : fault;
}

TEST(AsyncCopy, LandsWhenItIsWaitedFor) {
  EXPECT_EQ(copied(true, true), "");
}

TEST(AsyncCopy, MissingWaitIsNamed) {
  EXPECT_THAT(copied(false, true),
              AllOf(HasSubstr("reads dynamic shared memory at offset"),
                    HasSubstr("before this block has written it"), HasSubstr("tensor_core_test.cpp:")));
  EXPECT_THAT(copied(true, true, 1), HasSubstr("before this block has written it"))
      << "the latest group is left";
  EXPECT_THAT(copied(true, false), HasSubstr("before this block has written it")) << "another thread's";
}

// Memory that was written before: the old values must not pass for the new ones.
TEST(AsyncCopy, OldValuesAreNoneOnceACopyHasBegun) {
  alignas(16) static std::array<uint32_t, 4> source{};
  EXPECT_THAT(fault_of(
                  1,
                  [] {
                    const Shared<uint32_t> memory = cuda::dynamic_shared<uint32_t>();
                    for (int i = 0; i < 4; ++i) memory[i] = 7;
                    cuda::copy_async(memory, source.data(), true);
                    cuda::commit_async();
                    const uint32_t old = memory[2];
                    memory[0] = old;
                  },
                  16),
              HasSubstr("before this block has written it"));
}

TEST(AsyncCopy, WhatIsNotPresentIsZero) {
  alignas(16) static std::array<uint32_t, 4> source{1, 2, 3, 4};
  uint32_t sum = 1;
  run_block(
      1,
      [&] {
        const Shared<uint32_t> memory = cuda::dynamic_shared<uint32_t>();
        cuda::copy_async(memory, source.data(), false);
        cuda::commit_async();
        cuda::wait_async<0>();
        sum = memory[0] + memory[3];
      },
      16);
  EXPECT_EQ(sum, 0u);
  EXPECT_THAT(fault_of(
                  1,
                  [] {
                    const Shared<uint32_t> memory = cuda::dynamic_shared<uint32_t>();
                    cuda::copy_async(memory + 1, source.data(), true);
                  },
                  32),
              HasSubstr("not aligned to 16"));
}

}  // namespace
}  // namespace penstock::simt
