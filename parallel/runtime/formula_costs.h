#pragma once

#include "model/rank_config.h"
#include "parallel/planner/unit_costs.h"

namespace penstock::runtime {

/// How fast a device is.
struct DeviceRates {
  double matmul_flops = 0;             ///< floating-point operations a second of large products
  double memory_bytes_per_second = 0;  ///< read and written together, by passes over large tensors
};

/// About what a core of a current server sustains, for `threads` of them: 100 GFLOP/s and 12 GB/s each in
/// fp32, products twice as fast in bf16. Only the ratio decides a partition, and it is the same on every
/// machine, so that a job is always cut the same way.
DeviceRates nominal_cpu_rates(DType compute, int64_t threads);

/// Costs without a profile: `counted` (model_footprint) with times by formula, FLOPs of products ÷
/// matmul_flops + bytes of element-wise passes ÷ memory_bytes_per_second. N tokens, T of a sequence, C
/// hidden, H query and G key heads of D channels, F inner width, V rows of the vocabulary, E elements of a
/// unit's matrices, e bytes of a stored value.
///
///   products   F: 2·N·E, and for attention 2·N·H·D·(T+1): scores and weighted values over (T+1)/2 visible
///              keys. I: 2·N·E, and 2.5 times attention's (scores again, and four products). W: 2·N·E.
///              R full: all of F but the unit's last projection; selective: none.
///              head: I has all of it, 6·N·V·C. embedding: none.
///   passes     norm: 2·N·C·e in F (and R), 4·N·C·e in I; joining the residual stream: 3·N·C·e in F; rotation
///              and head norm: 2·N·(H+G)·D·e each; GELU: 2·N·F·e in F, 3·N·F·e in I; SwiGLU: 3 and 5;
///              dropout: 2·N·C·e in F and I; embedding: 2·N·C·e in F and N·C·(e + 8) in I, GPT-2 half as much
///              again for positions; head: N·V·(12 + e) for its fp32 logits, and its norm, in I.
///   optimizer  a parameter's fp32 gradient zeroed and squared, then AdamW: 36 bytes, and e for the compute
///              copy.
///
/// Operands of products are not counted as passes: the measured rate of a product includes them. The result's
/// `source` says that it is by formula.
planner::ModelCosts formula_costs(const model::RankConfig& common, const DeviceRates& rates,
                                  planner::ModelCosts counted);

}  // namespace penstock::runtime
