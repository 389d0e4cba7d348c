// Bugs that only a sanitizer sees, planted: the builds of these tests with a sanitizer must report each, and
// nothing where there is none.
#include <memory>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "tests/simt/run.h"

#ifdef PENSTOCK_SIMT_THREAD
/// A report ends the process, so that a test can expect it.
extern "C" const char* __tsan_default_options() {
  return "halt_on_error=1";
}
#endif

namespace penstock::simt {
namespace {

constexpr unsigned threads = 256;

/// Sums neighbours `rounds` times. Between the barriers everybody reads what others wrote.
void exchange(bool second_barrier, int rounds) {
  run_block(threads, [=] {
    SHARED_ARRAY(int, values, threads);
    for (int round = 0; round < rounds; ++round) {
      values[threadIdx.x] = round;
      __syncthreads();
      const int neighbour = values[(threadIdx.x + 1) % threads];
      if (neighbour != round) fault("read another round's value");
      if (second_barrier) __syncthreads();
    }
  });
}

TEST(Sanitized, TwoHundredCleanRoundsGiveNoReport) {
  exchange(true, 200);
}

TEST(Sanitized, CleanGlobalMemoryGivesNoReport) {
  std::vector<int> in(10 * threads);
  std::iota(in.begin(), in.end(), 0);
  std::vector<int> out(in.size());
  for (int launch = 0; launch < 5; ++launch) {
    run({"copy", dim3(10), dim3(threads)}, [&] {
      const unsigned i = blockIdx.x * threads + threadIdx.x;
      out[i] += in[in.size() - 1 - i];
    });
    // The host reads and writes between launches.
    EXPECT_EQ(out[0], (launch + 1) * in.back());
    in[1] = launch;
  }
}

TEST(Sanitized, SyncwarpOrdersALanesWrites) {
  std::vector<int> values(32);
  run_block(32, [&] {
    for (int round = 0; round < 10; ++round) {
      values[threadIdx.x] = round;
      __syncwarp();
      if (values[threadIdx.x ^ 1U] != round) fault("read another round's value");
      __syncwarp();
    }
  });
}

#ifdef PENSTOCK_SIMT_THREAD
class Races : public ::testing::Test {
 protected:
  Races() { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(Races, BetweenBarriersInSharedMemory) {
  // In this order of turns the values are right even so.
  EXPECT_DEATH(
      {
        set_order(Order::descending);
        run_block(threads, [] {
          SHARED_ARRAY(int, values, threads);
          values[threadIdx.x] = 1;
          __syncthreads();
          if (threadIdx.x == 0) values[1] = 2;
          if (values[threadIdx.x] == 3) fault("unseen");
        });
      },
      "data race");
}

TEST_F(Races, AMissingSecondBarrier) {
  EXPECT_DEATH(run_block(threads,
                         [] {
                           SHARED_ARRAY(int, values, threads);
                           values[threadIdx.x] = 0;
                           __syncthreads();
                           const int neighbour = values[(threadIdx.x + 1) % threads];
                           values[threadIdx.x] = neighbour + 1;
                         }),
               "data race");
}

TEST_F(Races, InGlobalMemoryAndNamedAtTheLine) {
  auto sum = std::make_unique<int>(0);
  EXPECT_DEATH(run_block(threads, [&] { *sum += 1; }), "data race(.|\n)*sanitizer_test.cpp:");
}

TEST_F(Races, AShuffleOrdersNothing) {
  std::vector<int> values(32);
  EXPECT_DEATH(run_block(32,
                         [&] {
                           values[threadIdx.x] = 1;
                           __shfl_xor_sync(0xffffffffU, 1, 1);
                           if (values[threadIdx.x ^ 1U] != 1) fault("unseen");
                         }),
               "data race");
}

TEST_F(Races, AnAtomicAmongPlainAccesses) {
  auto sum = std::make_unique<int>(0);
  run_block(threads, [&] { atomicAdd(sum.get(), 1); });
  EXPECT_EQ(*sum, static_cast<int>(threads));
  EXPECT_DEATH(run_block(threads,
                         [&] {
                           if (threadIdx.x == 9) {
                             *sum = 1;
                           } else {
                             atomicAdd(sum.get(), 1);
                           }
                         }),
               "data race");
}
#endif

#ifdef PENSTOCK_SIMT_ADDRESS
TEST(OutOfBounds, BehindAndBeforeGlobalMemory) {
  std::vector<float> values(threads);
  EXPECT_DEATH(run_block(threads, [&] { values[threadIdx.x + 1] = 0; }), "heap-buffer-overflow");
  float sum = 0;
  EXPECT_DEATH(run_block(threads, [&] { sum += *(values.data() + threadIdx.x - 1); }),
               "heap-buffer-overflow(.|\n)*sanitizer_test.cpp:");
}

TEST(OutOfBounds, SixteenBytesOverATail) {
  std::vector<float> values(threads * 4 - 1);
  EXPECT_DEATH(run_block(threads,
                         [&] {
                           auto* const to = reinterpret_cast<float4*>(values.data());
                           to[threadIdx.x] = make_float4(1, 2, 3, 4);
                         }),
               "heap-buffer-overflow");
}

TEST(OutOfBounds, OnTheStackOfAThread) {
  EXPECT_DEATH(run_block(threads,
                         [] {
                           volatile unsigned length = threadIdx.x == 200 ? 5 : 4;
                           float local[4];
                           for (unsigned i = 0; i < length; ++i) static_cast<volatile float*>(local)[i] = 1;
                         }),
               "stack-buffer-overflow");
}

TEST(OutOfBounds, MemoryThatWasGivenBack) {
  auto values = std::make_unique<float[]>(threads);
  float* const stale = values.get();
  values.reset();
  EXPECT_DEATH(run_block(threads, [&] { stale[threadIdx.x] = 1; }), "heap-use-after-free");
}
#endif

}  // namespace
}  // namespace penstock::simt
