#include "kernels/cuda/make_math.h"

#include "kernels/cuda/attention.h"
#include "kernels/cuda/cached_attention.h"
#include "kernels/cuda/choose_attention.h"
#include "kernels/cuda/cudnn_attention.h"
#include "kernels/cuda/embedding.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/head.h"
#include "kernels/cuda/head_products.h"
#include "kernels/cuda/norm.h"
#include "kernels/cuda/optimizer.h"
#include "kernels/cuda/pointwise.h"
#include "kernels/cuda/reduce.h"

namespace penstock::cuda {

math::Math make_math(Device& device, const std::shared_ptr<GemmLibrary>& library,
                     const MathOptions& options) {
  return {.gemm = make_gemm(library),
          .norm = make_norm(device),
          .attention = choose_attention(
              options.attention,
              options.attention == CudaAttention::native ? OptionalAttention{} : make_cudnn_attention(device),
              make_attention(device), options.log),
          .cached_attention = make_cached_attention(device),
          .pointwise = make_pointwise(device),
          .embedding = make_embedding(device),
          .head = make_head(make_head_products(library)),
          .optimizer = make_optimizer(device),
          .reduce = make_reduce(device)};
}

}  // namespace penstock::cuda
