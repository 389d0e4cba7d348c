#include "kernels/cuda/device.h"

#include <gtest/gtest.h>

TEST(X, Y) {
  auto d = penstock::cuda::make_cuda_device({});
  auto s = d->create_stream("a", penstock::StreamUse::compute);
  double t = 0;
  s->stamp(&t);
  s->synchronize();
  EXPECT_GT(t, 0);
}
