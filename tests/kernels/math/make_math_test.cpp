#include "kernels/cpu/make_math.h"

#include <gtest/gtest.h>

#include "kernels/cpu/device.h"
#include "kernels/reference/make_math.h"

namespace penstock::testing {
namespace {

TEST(MakeMath, EveryFamilyIsThere) {
  const auto device = cpu::make_cpu_device({});
  for (const auto make : {cpu::make_math, reference::make_math}) {
    const math::Math math = make(*device);
    ASSERT_TRUE(math.gemm && math.norm && math.attention && math.cached_attention && math.pointwise);
    ASSERT_TRUE(math.embedding && math.head && math.optimizer && math.reduce);
    EXPECT_TRUE(math.gemm->supports({.tokens = 1, .in = 1, .out = 1}));
    EXPECT_TRUE(math.embedding->supports(DType::fp32));
  }
}

}  // namespace
}  // namespace penstock::testing
