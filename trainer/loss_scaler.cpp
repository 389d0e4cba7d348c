#include "trainer/loss_scaler.h"

#include <algorithm>

namespace penstock {

bool scales_loss(const Job& job) {
  const PrecisionSection& precision = job.precision;
  return precision.compute == Precision::fp16 || precision.p2p == Precision::fp16 ||
         precision.gradient_reduce == Precision::fp16;
}

LossScaler::LossScaler(const Job& job)
    : section_(job.loss_scaling), active_(scales_loss(job)), scale_(active_ ? section_.initial : 1) {}

bool LossScaler::succeeded() {
  if (!active_ || ++good_steps_ < section_.growth_interval) return false;
  good_steps_ = 0;
  const double before = scale_;
  scale_ = std::min(section_.maximum, scale_ * section_.growth_factor);
  return scale_ > before;
}

bool LossScaler::overflowed() {
  if (!active_) return false;
  good_steps_ = 0;
  const double before = scale_;
  scale_ = std::max(section_.minimum, scale_ * section_.backoff_factor);
  return scale_ < before;
}

nlohmann::json LossScaler::state() const {
  return {{"scale", scale_}, {"good_steps", good_steps_}};
}

void LossScaler::restore(const nlohmann::json& state) {
  scale_ = state.at("scale").get<double>();
  good_steps_ = state.at("good_steps").get<int64_t>();
}

}  // namespace penstock
