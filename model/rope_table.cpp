#include "model/rope_table.h"

#include <cmath>
#include <cstdint>
#include <numbers>

namespace penstock::model {

namespace {

double scaled(double frequency, const RopeScaling& scaling) {
  if (scaling.type == RopeScalingType::linear) return frequency / scaling.factor;
  const auto original = static_cast<double>(scaling.original_max_position_embeddings);
  const double wave_length = 2.0 * std::numbers::pi / frequency;
  if (wave_length < original / scaling.high_freq_factor) return frequency;
  if (wave_length > original / scaling.low_freq_factor) return frequency / scaling.factor;
  const double smooth = (original / wave_length - scaling.low_freq_factor) /
                        (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1.0 - smooth) * frequency / scaling.factor + smooth * frequency;
}

}  // namespace

std::vector<float> rope_table(const ModelSection& model) {
  const int64_t half = model.head_dim / 2;
  std::vector<float> table;
  table.reserve(static_cast<size_t>(model.sequence_length * half * 2));
  for (int64_t position = 0; position < model.sequence_length; ++position) {
    for (int64_t i = 0; i < half; ++i) {
      double frequency =
          std::pow(model.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(model.head_dim));
      if (model.rope_scaling) frequency = scaled(frequency, *model.rope_scaling);
      const double angle = static_cast<double>(position) * frequency;
      table.push_back(static_cast<float>(std::cos(angle)));
      table.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  return table;
}

}  // namespace penstock::model
