#include "kernels/cpu/make_math.h"

#include "kernels/cpu/attention.h"
#include "kernels/cpu/cached_attention.h"
#include "kernels/cpu/embedding.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/head.h"
#include "kernels/cpu/norm.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/cpu/pointwise.h"
#include "kernels/cpu/reduce.h"

namespace penstock::cpu {

math::Math make_math(Device& device) {
  return {.gemm = make_gemm(device),
          .norm = make_norm(device),
          .attention = make_attention(device),
          .cached_attention = make_cached_attention(device),
          .pointwise = make_pointwise(device),
          .embedding = make_embedding(device),
          .head = make_head(device),
          .optimizer = make_optimizer(device),
          .reduce = make_reduce(device)};
}

}  // namespace penstock::cpu
