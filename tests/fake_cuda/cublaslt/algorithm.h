#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <cublasLt.h>

/// Algorithms of the fake library, and how they are packed into cublasLtMatmulAlgo_t.
namespace penstock::fake_cublaslt {

/// Sums are added in blocks of `depth_block`, ascending, then the sums of blocks.
struct Algorithm {
  int32_t id = 0;
  uint32_t tile = 0;
  int64_t depth_block = 0;
  uint32_t alignment = 1;  ///< bytes, of matrices and their columns
  uint64_t workspace = 0;
  int32_t split_k = 1;
  uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
};

/// The last one takes any matrix.
inline constexpr std::array<Algorithm, 4> algorithms = {
    {{0, 20, 64, 16, 0}, {1, 18, 32, 16, 4096}, {2, 15, 128, 8, 1 << 16}, {3, 11, 16, 1, 256}}};

cublasLtMatmulAlgo_t pack(const Algorithm& algorithm);
/// False if these are no bytes of ours.
bool unpack(const cublasLtMatmulAlgo_t& packed, Algorithm& algorithm);

}  // namespace penstock::fake_cublaslt
