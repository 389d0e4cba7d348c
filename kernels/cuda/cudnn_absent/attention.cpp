#include "kernels/cuda/cudnn_attention.h"

namespace penstock::cuda {

OptionalAttention make_cudnn_attention(Device& /*device*/) {
  return {.attention = nullptr,
          .description =
              "this build has no cuDNN: cudnn.h or cudnn_frontend.h was not found (scripts/setup gets "
              "the latter)"};
}

}  // namespace penstock::cuda
