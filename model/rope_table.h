#pragma once

#include <vector>

#include "model/model_section.h"

namespace penstock::model {

/// (cos, sin) of position · frequency, fp32 (P, D/2, 2), P = sequence_length, D = head_dim, computed in
/// double. frequency_i = theta^(−2i/D), stretched by rope_scaling as Hugging Face's "linear" and "llama3" do.
std::vector<float> rope_table(const ModelSection& model);

}  // namespace penstock::model
