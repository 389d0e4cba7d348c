#pragma once

#include <cstdint>

#include "model/model_section.h"

namespace penstock::model {

/// Parameters that take part in matrix products: every matrix of the layers and the head's (also where it is
/// tied), without vocabulary padding; not the embedding look-ups, norms or biases.
int64_t matmul_parameters(const ModelSection& model);

/// Floating-point operations that training a token needs, a multiplication and an addition counted as two:
///   6 · matmul_parameters + 6 · layers · heads · head_dim · (sequence_length + 1)
/// Products: 2 forward, 4 backward. Attention: scores and weighted values are 4·H·D a visible key forward and
/// twice that backward; a causal token sees (T + 1) / 2 keys on average, and only those are counted.
/// Recomputation is not counted: it is not the model's.
double training_flops_per_token(const ModelSection& model);

}  // namespace penstock::model
