#include "parallel/runtime/replay_times.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include <fmt/format.h>

#include "kernels/device/error.h"
#include "kernels/math/philox.h"

namespace penstock::runtime {

using Kind = Disturbance::Kind;
using schedule::Op;

namespace {

/// What a rank's own factor is drawn for, in the place of an action's operation.
constexpr uint32_t rank_draw = 0xffffffffU;

void require(bool fits, const char* what, double value) {
  if (!fits) throw UsageError(fmt::format("noise: {} is {}", what, value));
}

// A weighted sum of independent draws of the last steps with variance 1, whose correlation over k steps is
// c^k.
std::vector<double> moving_weights(double correlation) {
  constexpr double negligible = 1e-4;
  std::vector<double> weights;
  double squares = 0;
  for (double weight = 1; weight > negligible; weight *= correlation) {
    weights.push_back(weight);
    squares += weight * weight;
  }
  for (double& weight : weights) weight /= std::sqrt(squares);
  return weights;
}

double log_normal(double sigma, double normal) {
  return std::exp(sigma * normal - sigma * sigma / 2);
}

}  // namespace

ReplayTimes::ReplayTimes(const schedule::Program& program, schedule::Costs costs,
                         std::vector<Disturbance> disturbances, const Noise& noise)
    : costs_(std::move(costs)), disturbances_(std::move(disturbances)), noise_(noise) {
  schedule::require_fitting(costs_, program.schedule);
  require_fitting(disturbances_, program);
  constexpr double largest_sigma = 2;
  constexpr double largest_correlation = 0.999;
  require(noise.action_sigma >= 0 && noise.action_sigma <= largest_sigma,
          "sigma of actions, 0 to 2 of their time,", noise.action_sigma);
  require(noise.rank_sigma >= 0 && noise.rank_sigma <= largest_sigma, "sigma of ranks, 0 to 2 of their time,",
          noise.rank_sigma);
  require(noise.correlation >= 0 && noise.correlation <= largest_correlation,
          "correlation of steps, 0 to 0.999,", noise.correlation);
  memory_ = moving_weights(noise.correlation);
}

double ReplayTimes::draw(uint64_t step, uint32_t a, uint32_t b) const {
  const auto low = static_cast<uint32_t>(step);
  const auto high = static_cast<uint32_t>(step >> 32U);
  const auto words = math::philox(
      {low, high, a, b},
      {static_cast<uint32_t>(noise_.seed), static_cast<uint32_t>(noise_.seed >> 32U) ^
                                               (static_cast<uint32_t>(math::RandomPurpose::replay) << 24U)});
  // Box and Muller (1958), of two numbers in (0, 1].
  const auto uniform = [](uint32_t word) { return (static_cast<double>(word) + 1) * 0x1p-32; };
  return std::sqrt(-2 * std::log(uniform(words[0]))) * std::cos(2 * std::numbers::pi * uniform(words[1]));
}

double ReplayTimes::rank_factor(uint64_t step, int rank) const {
  double factor = 1;
  for (const Disturbance& each : disturbances_) {
    if (each.kind == Kind::rank && each.from == rank && each.applies(step)) factor *= each.factor;
  }
  if (noise_.rank_sigma == 0) return factor;
  double normal = 0;
  // Steps before the first are as random as any: numbers wrap around.
  for (size_t ago = 0; ago < memory_.size(); ++ago)
    normal += memory_[ago] * draw(step - ago, static_cast<uint32_t>(rank), rank_draw);
  return factor * log_normal(noise_.rank_sigma, normal);
}

double ReplayTimes::action(uint64_t step, int stage, Op op, int micro_batch) const {
  const schedule::StageCosts& block = costs_.of_stage(stage);
  double seconds = op == Op::forward          ? block.forward
                   : op == Op::backward_input ? block.backward_input
                                              : block.backward_weight;
  for (const Disturbance& each : disturbances_) {
    if (each.kind == Kind::stage && each.from == stage && each.applies(step)) seconds *= each.factor;
  }
  if (noise_.action_sigma > 0) {
    constexpr uint32_t operations = 4;
    const uint32_t what = static_cast<uint32_t>(stage) * operations + static_cast<uint32_t>(op);
    seconds *= log_normal(noise_.action_sigma, draw(step, static_cast<uint32_t>(micro_batch), what));
  }
  return seconds;
}

double ReplayTimes::sum(uint64_t step, Kind kind, int from, int to) const {
  double seconds = 0;
  for (const Disturbance& each : disturbances_) {
    if (each.kind == kind && each.from == from && each.to == to && each.applies(step))
      seconds += each.seconds;
  }
  return seconds;
}

double ReplayTimes::host(uint64_t step, int rank) const {
  return sum(step, Kind::host, rank);
}
double ReplayTimes::data(uint64_t step, int rank) const {
  return sum(step, Kind::data, rank);
}
bool ReplayTimes::disturbs_links() const {
  return std::any_of(disturbances_.begin(), disturbances_.end(),
                     [](const Disturbance& each) { return each.kind == Kind::link; });
}
double ReplayTimes::link(uint64_t step, int source, int destination) const {
  return sum(step, Kind::link, source, destination);
}
double ReplayTimes::pause(uint64_t step, Kind kind) const {
  return sum(step, kind, 0);
}

}  // namespace penstock::runtime
