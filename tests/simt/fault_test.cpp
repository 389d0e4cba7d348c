// Kernels with planted bugs: the harness names each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/simt/run.h"

namespace penstock::simt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Faults, BarrierThatAThreadReturnsBefore) {
  for (const Order order : {Order::ascending, Order::descending, Order::shuffled}) {
    set_order(order);
    const std::string found = fault_of(64, [] {
      if (threadIdx.x == 33) return;
      __syncthreads();
    });
    EXPECT_THAT(found, AllOf(HasSubstr("kernel planted, block (0,0,0), thread ("), HasSubstr("barrier"),
                             HasSubstr("returned"), HasSubstr("fault_test.cpp:")));
  }
  set_order(Order::ascending);
}

TEST(Faults, BarrierThatAWarpNeverReaches) {
  const std::string found = fault_of(64, [] {
    if (threadIdx.x < 32) {
      __syncthreads();
    } else if (threadIdx.x == 40) {
      __syncwarp();
    }
  });
  EXPECT_THAT(found, AllOf(HasSubstr("barrier"), HasSubstr("returned")));
}

TEST(Faults, DifferentBarriersInTheBranchesOfACondition) {
  const std::string found = fault_of(64, [] {
    if (threadIdx.x % 2 == 0) {
      __syncthreads();
    } else {
      __syncthreads();
    }
  });
  EXPECT_THAT(found, AllOf(HasSubstr("thread (1,0,0), "),
                           HasSubstr("waits at one barrier, thread (0,0,0) at another")));
}

TEST(Faults, ShuffleWithALaneThatReturned) {
  const std::string found = fault_of(32, [] {
    if (threadIdx.x == 5) return;
    __shfl_xor_sync(0xffffffffU, 1.0F, 1);
  });
  EXPECT_THAT(found, AllOf(HasSubstr("a lane missing"), HasSubstr("(5,0,0) has returned")));
}

TEST(Faults, ShuffleWithALaneThatReturnedBeforeItBegan) {
  set_order(Order::descending);
  const std::string found = fault_of(32, [] {
    if (threadIdx.x == 31) return;
    __shfl_xor_sync(0xffffffffU, 1.0F, 1);
  });
  set_order(Order::ascending);
  EXPECT_THAT(found, AllOf(HasSubstr("a lane missing"), HasSubstr("lane 31 has returned")));
}

TEST(Faults, ShuffleWithALaneThatWaitsElsewhere) {
  const std::string found = fault_of(32, [] {
    if (threadIdx.x == 7) {
      __syncthreads();
    } else {
      __shfl_down_sync(0xffffffffU, 1, 1);
    }
  });
  EXPECT_THAT(found, AllOf(HasSubstr("a lane missing"), HasSubstr("thread (7,0,0) waits at the barrier of")));
}

TEST(Faults, ShufflesWhoseLanesDisagreeOnTheMask) {
  const std::string found = fault_of(32, [] {
    const unsigned mask = threadIdx.x < 16 ? 0x0001ffffU : 0xffff8000U;
    __shfl_xor_sync(mask, 1, 0);
  });
  EXPECT_THAT(found, AllOf(HasSubstr("a lane missing"), HasSubstr("thread (16,0,0) waits for its warp at")));
}

TEST(Faults, ShufflesInTheBranchesOfACondition) {
  const std::string found = fault_of(32, [] {
    if (threadIdx.x < 4) {
      __shfl_xor_sync(0xffffffffU, 1, 1);
    } else {
      __shfl_xor_sync(0xffffffffU, 1, 1);
    }
  });
  EXPECT_THAT(found, AllOf(HasSubstr("a lane missing"), HasSubstr("thread (4,0,0) waits for its warp at")));
}

TEST(Faults, LaneOutsideItsOwnMask) {
  EXPECT_THAT(fault_of(32, [] { __ballot_sync(0x0000ffffU, 1); }),
              HasSubstr("lane 16 is not in its own mask 0x0000ffff"));
}

TEST(Faults, MaskWithLanesThatTheBlockDoesNotHave) {
  EXPECT_THAT(fault_of(20, [] { __any_sync(0xffffffffU, 1); }), HasSubstr("names lane 20"));
}

TEST(Faults, ShuffleFromALaneOutsideTheMask) {
  const std::string found = fault_of(32, [] {
    if (threadIdx.x < 16) __shfl_sync(0x0000ffffU, 1.0F, 20);
  });
  EXPECT_THAT(found, HasSubstr("lane 0 reads lane 20, which is not in mask 0x0000ffff"));
}

TEST(Faults, SharedMemoryReadBeforeItIsWritten) {
  const auto kernel = [] {
    SHARED_ARRAY(float, values, 64);
    if (threadIdx.x != 3) values[threadIdx.x] = 1.0F;
    __syncthreads();
    if (values[63 - threadIdx.x] == 2.0F) fault("never reached");
  };
  EXPECT_THAT(fault_of(64, kernel),
              AllOf(HasSubstr("thread (60,0,0), "), HasSubstr("fault_test.cpp:"),
                    HasSubstr("reads values at offset 12 before this block has written it")));
}

TEST(Faults, SharedMemoryThatOnlyAnEarlierBlockWrote) {
  const auto kernel = [] {
    const cuda::Shared<int> values = cuda::dynamic_shared<int>();
    if (blockIdx.x == 0) values[threadIdx.x] = 1;
    __syncthreads();
    if (values[threadIdx.x] == 2) fault("never reached");
  };
  EXPECT_NO_THROW(run({"planted", dim3(1), dim3(8), 32}, kernel));
  try {
    run({"planted", dim3(2), dim3(8), 32}, kernel);
    FAIL() << "block 1 read what block 0 wrote";
  } catch (const Fault& fault) {
    EXPECT_THAT(fault.what(),
                AllOf(HasSubstr("block (1,0,0)"), HasSubstr("before this block has written it")));
  }
}

TEST(Faults, SharedMemoryOutOfBounds) {
  const auto below = [] {
    SHARED_ARRAY(float, values, 8);
    values[static_cast<int>(threadIdx.x) - 1] = 0.0F;
  };
  EXPECT_THAT(fault_of(4, below), HasSubstr("4 bytes at offset -4 are outside values, which has 32 bytes"));
  const auto above = [] { cuda::store4(cuda::dynamic_shared<float>() + 4 * threadIdx.x, float4()); };
  EXPECT_EQ(fault_of(8, above, 128), "");
  EXPECT_THAT(
      fault_of(9, above, 128),
      AllOf(HasSubstr("thread (8,0,0)"), HasSubstr("outside dynamic shared memory, which has 128 bytes")));
}

TEST(Faults, MisalignedAccesses) {
  EXPECT_THAT(fault_of(
                  1, [] { cuda::store4(cuda::dynamic_shared<float>() + 2, float4()); }, 64),
              HasSubstr("16 bytes at offset 8 of dynamic shared memory are not aligned to 16"));
  EXPECT_THAT(fault_of(1, [] { cuda::check_alignment(reinterpret_cast<void*>(8), 16); }),
              HasSubstr("a misaligned access"));
}

TEST(Faults, LaunchesThatNoDeviceTakes) {
  EXPECT_THAT(fault_of(1025, [] {}), HasSubstr("1025 threads a block"));
  EXPECT_THAT(fault_of(
                  1, [] {}, 1 << 18),
              HasSubstr("262144 bytes of dynamic shared memory"));
  EXPECT_THROW(run({"planted", dim3(0), dim3(1)}, [] {}), Fault);
  EXPECT_THROW(run({"planted", dim3(1, 70000), dim3(1)}, [] {}), Fault);
}

TEST(Faults, LeaveTheMachineUsable) {
  for (int round = 0; round < 20; ++round) {
    EXPECT_NE(fault_of(256,
                       [] {
                         if (threadIdx.x == 77) fault("planted");
                         __syncthreads();
                       }),
              "");
    int sum = 0;
    run_block(256, [&] {
      const int votes = __syncthreads_count(threadIdx.x % 2 == 0 ? 1 : 0);
      if (threadIdx.x == 0) sum = votes;
    });
    EXPECT_EQ(sum, 128);
  }
}

}  // namespace
}  // namespace penstock::simt
