#pragma once

#include <array>
#include <string_view>
#include <utility>

namespace penstock {

enum class CudaAttention { automatic, cudnn, native };
inline constexpr std::array<std::pair<std::string_view, CudaAttention>, 3> kCudaAttentionNames{
    {{"auto", CudaAttention::automatic}, {"cudnn", CudaAttention::cudnn}, {"native", CudaAttention::native}}};

/// [cuda]: choices that exist on CUDA devices only.
struct CudaSection {
  bool graphs = false;
  CudaAttention attention = CudaAttention::automatic;
  bool tf32 = false;

  bool operator==(const CudaSection&) const = default;

  template <class Visitor>
  void describe(Visitor& v) {
    v.key("graphs", graphs)
        .help("launch each action's kernels as one CUDA graph (takes GPU memory outside the arenas)");
    v.key("attention", attention).one_of(kCudaAttentionNames).help("which attention kernels");
    v.key("tf32", tf32)
        .help("matrix products of fp32 on tensor cores: inputs rounded to 10 bits of mantissa");
  }
};

}  // namespace penstock
