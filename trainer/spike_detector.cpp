#include "trainer/spike_detector.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace penstock {

SpikeDetector::SpikeDetector(double z, int64_t window) : z_(z), window_(static_cast<size_t>(window)) {}

SpikeDetector::Window SpikeDetector::window() const {
  const auto count = static_cast<double>(losses_.size());
  const double mean = std::accumulate(losses_.begin(), losses_.end(), 0.0) / count;
  double squares = 0;
  for (const double value : losses_) squares += (value - mean) * (value - mean);
  return {mean, std::sqrt(squares / count)};
}

double SpikeDetector::limit() const {
  if (losses_.size() < least) return std::numeric_limits<double>::infinity();
  const Window recent = window();
  return recent.deviation > 0 ? recent.mean + z_ * recent.deviation : std::numeric_limits<double>::infinity();
}

std::optional<double> SpikeDetector::judge(double loss) {
  if (!std::isfinite(loss)) return std::nullopt;
  if (loss > limit()) {
    const Window recent = window();
    return (loss - recent.mean) / recent.deviation;
  }
  losses_.push_back(loss);
  if (losses_.size() > window_) losses_.pop_front();
  return std::nullopt;
}

nlohmann::json SpikeDetector::state() const {
  return std::vector<double>(losses_.begin(), losses_.end());
}

void SpikeDetector::restore(const nlohmann::json& state) {
  const auto losses = state.get<std::vector<double>>();
  losses_.assign(losses.begin(), losses.end());
  while (losses_.size() > window_) losses_.pop_front();
}

}  // namespace penstock
