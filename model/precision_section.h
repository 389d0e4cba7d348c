#pragma once

#include <array>
#include <string_view>
#include <utility>

namespace penstock {

enum class Precision { fp32, bf16, fp16, fp8 };
inline constexpr std::array<std::pair<std::string_view, Precision>, 4> kComputePrecisionNames{
    {{"fp32", Precision::fp32},
     {"bf16", Precision::bf16},
     {"fp16", Precision::fp16},
     {"fp8", Precision::fp8}}};
inline constexpr std::array<std::pair<std::string_view, Precision>, 3> kWirePrecisionNames{
    {{"fp32", Precision::fp32}, {"bf16", Precision::bf16}, {"fp16", Precision::fp16}}};

/// [precision]: element types of products, and of what travels between ranks. Master weights, gradients'
/// accumulators and moments are fp32.
struct PrecisionSection {
  Precision compute = Precision::fp32;
  Precision p2p = Precision::fp32;
  Precision gradient_reduce = Precision::fp32;
  bool stochastic_rounding = false;

  bool operator==(const PrecisionSection&) const = default;

  template <class Visitor>
  void describe(Visitor& v) {
    v.key("compute", compute)
        .one_of(kComputePrecisionNames)
        .derived("fp32 on CPU, bf16 on CUDA")
        .help("inputs of products and stored activations; fp16: see [loss_scaling]; fp8: linear layers only");
    v.key("p2p", p2p)
        .one_of(kWirePrecisionNames)
        .derived("as compute (bf16 for fp8)")
        .help("activations and their gradients between stages");
    v.key("gradient_reduce", gradient_reduce)
        .one_of(kWirePrecisionNames)
        .help("weight gradients between replicas");
    v.key("stochastic_rounding", stochastic_rounding).help("bf16 weights without an fp32 master");
  }
};

}  // namespace penstock
