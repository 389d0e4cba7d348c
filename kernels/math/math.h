#pragma once

#include <memory>

#include "kernels/math/attention.h"
#include "kernels/math/cached_attention.h"
#include "kernels/math/embedding.h"
#include "kernels/math/gemm.h"
#include "kernels/math/head.h"
#include "kernels/math/norm.h"
#include "kernels/math/optimizer.h"
#include "kernels/math/pointwise.h"
#include "kernels/math/reduce.h"

namespace penstock::math {

/// One implementation of every family. cpu::make_math and reference::make_math build it.
struct Math {
  std::unique_ptr<Gemm> gemm;
  std::unique_ptr<Norm> norm;
  std::unique_ptr<Attention> attention;
  std::unique_ptr<CachedAttention> cached_attention;
  std::unique_ptr<Pointwise> pointwise;
  std::unique_ptr<Embedding> embedding;
  std::unique_ptr<Head> head;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Reduce> reduce;
};

}  // namespace penstock::math
