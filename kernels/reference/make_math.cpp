#include "kernels/reference/make_math.h"

#include "kernels/reference/attention.h"
#include "kernels/reference/cached_attention.h"
#include "kernels/reference/embedding.h"
#include "kernels/reference/gemm.h"
#include "kernels/reference/head.h"
#include "kernels/reference/norm.h"
#include "kernels/reference/optimizer.h"
#include "kernels/reference/pointwise.h"
#include "kernels/reference/reduce.h"

namespace penstock::reference {

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

}  // namespace penstock::reference
