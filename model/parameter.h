#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/device/tensor.h"
#include "model/layout.h"
#include "model/model_section.h"
#include "model/unit_id.h"

namespace penstock::model {

enum class InitialValue : uint8_t { zero, one, normal };

/// One parameter of a unit: everything about it but its memory.
struct ParameterSpec {
  std::string name;  ///< global, e.g. "layers.3.attention.qkv.weight"; independent of placement
  Shape shape;       ///< matrices are (out, in)
  Slice slice;       ///< what this rank holds: all of it
  ReductionGroup group = ReductionGroup::dense;
  bool decay = false;  ///< weight decay: matrices (embeddings too) yes, norms and biases no
  InitialValue initial = InitialValue::zero;
  double stddev = 0;            ///< of InitialValue::normal
  int64_t vocab_rows = -1;      ///< ≥ 0: rows from here on pad the vocabulary and stay 0
  bool compute_copy = false;    ///< matmul and embedding weights: kernels read a copy in the compute dtype;
                                ///< norms and biases are read as fp32 masters
  bool in_weight_half = false;  ///< its gradient accumulates in backward_weight (matmul weights of attention
                                ///< and MLP); else in backward_input (norms, biases, embeddings, the head)
  bool tied = false;  ///< the head's share of the token embedding: a gradient accumulator of its own
                      ///< (contract C1 c), the embedding's name
};

/// The parameters of one unit, in order. The head of a tied model lists "embedding.token.weight" with `tied`.
///
/// Initial values: matrices and embeddings normal(0, init_std), projections that write to the residual stream
/// normal(0, init_std / sqrt(2·layers)) (GPT-2; used for both families), norm weights 1, biases 0.
std::vector<ParameterSpec> unit_parameters(const ModelSection& model, UnitId unit);

/// Every parameter of the model once (a tied weight under the embedding), in model order.
std::vector<ParameterSpec> model_parameters(const ModelSection& model);

/// Number of values over model_parameters(), without vocabulary padding.
int64_t parameter_count(const ModelSection& model);

}  // namespace penstock::model
