#include "trainer/spike_detector.h"

#include <cmath>
#include <numeric>
#include <vector>

namespace penstock {

SpikeDetector::SpikeDetector(double z, int64_t window) : z_(z), window_(static_cast<size_t>(window)) {}

std::optional<double> SpikeDetector::judge(double loss) {
  if (!std::isfinite(loss)) return std::nullopt;
  if (losses_.size() >= least) {
    const auto count = static_cast<double>(losses_.size());
    const double mean = std::accumulate(losses_.begin(), losses_.end(), 0.0) / count;
    double squares = 0;
    for (const double value : losses_) squares += (value - mean) * (value - mean);
    const double deviation = std::sqrt(squares / count);
    const double distance = (loss - mean) / deviation;
    if (deviation > 0 && distance > z_) return distance;
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
