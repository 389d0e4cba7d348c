#include "tests/fake_cuda/cublaslt/algorithm.h"

#include <cstring>

#include "tests/fake_cuda/cublaslt/faults.h"

using namespace penstock::fake_cublaslt;

namespace penstock::fake_cublaslt {
namespace {
constexpr uint64_t mark = 0x66616b6563626c74;  // "fakecblt"
}

cublasLtMatmulAlgo_t pack(const Algorithm& algorithm) {
  cublasLtMatmulAlgo_t packed{};
  packed.data[0] = mark;
  packed.data[1] = static_cast<uint64_t>(algorithm.id);
  packed.data[2] = static_cast<uint64_t>(algorithm.split_k);
  packed.data[3] = algorithm.reduction;
  return packed;
}

bool unpack(const cublasLtMatmulAlgo_t& packed, Algorithm& algorithm) {
  if (packed.data[0] != mark || packed.data[1] >= algorithms.size()) return false;
  algorithm = algorithms[packed.data[1]];
  algorithm.split_k = static_cast<int32_t>(packed.data[2]);
  algorithm.reduction = static_cast<uint32_t>(packed.data[3]);
  return true;
}

}  // namespace penstock::fake_cublaslt

namespace {

template <class T>
cublasStatus_t give(T value, void* into, size_t bytes, size_t* written) {
  if (bytes != sizeof value) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(into, &value, bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* packed,
                                                               cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                               void* into, size_t bytes, size_t* written) {
  Algorithm algorithm;
  if (!unpack(*packed, algorithm)) return CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_ALGO_CONFIG_ID:
      return give(algorithm.id, into, bytes, written);
    case CUBLASLT_ALGO_CONFIG_TILE_ID:
      return give(algorithm.tile, into, bytes, written);
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM:
      return give(algorithm.split_k, into, bytes, written);
    case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME:
      return give(algorithm.reduction, into, bytes, written);
    case CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING:
    case CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION:
    case CUBLASLT_ALGO_CONFIG_STAGES_ID:
      return give(uint32_t{0}, into, bytes, written);
    case CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID:
    case CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID:
      return give(uint16_t{0}, into, bytes, written);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}
