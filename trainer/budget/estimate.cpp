#include "trainer/budget/estimate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "trainer/accounting/median.h"

namespace penstock::budget {

namespace {

constexpr double most_correlation = 0.98;

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double normal_quantile(double probability) {
  double low = 0;
  double high = 10;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (1 - std::erfc(middle / std::sqrt(2.0)) / 2 < probability ? low : high) = middle;
  }
  return low;
}

}  // namespace

double variance_of_mean(double correlation, size_t count) {
  const auto n = static_cast<double>(count);
  double sum = 1;
  double power = 1;
  for (size_t k = 1; k < count; ++k) {
    power *= correlation;
    if (power < 1e-6) break;
    sum += 2 * (1 - static_cast<double>(k) / n) * power;
  }
  return sum / n;
}

SeriesNoise noise_of(std::span<const std::vector<double>> series) {
  double squares = 0;
  double products = 0;
  double values = 0;
  double pairs = 0;
  for (const std::vector<double>& each : series) {
    if (each.size() < 3) continue;
    const double mean = mean_of(each);
    for (size_t t = 0; t < each.size(); ++t) {
      squares += (each[t] - mean) * (each[t] - mean);
      if (t > 0) products += (each[t] - mean) * (each[t - 1] - mean);
    }
    values += static_cast<double>(each.size());
    pairs += static_cast<double>(each.size() - 1);
  }
  if (squares <= 0) return {};
  if (const double sigma = std::sqrt(squares / values); sigma < SeriesNoise::negligible) return {sigma, 0};
  const double lag = (products / pairs) / (squares / values);
  double length = 0;  // of a series, on average
  for (const std::vector<double>& each : series)
    length += each.size() < 3 ? 0 : static_cast<double>(each.size() * each.size()) / values;
  SeriesNoise noise;
  noise.correlation = std::clamp(lag + (1 + 4 * std::max(0.0, lag)) / length, 0.0, most_correlation);
  // Of independent values the correction alone would make some: half of it is within its own error.
  if (noise.correlation < 2 / std::sqrt(pairs)) noise.correlation = 0;
  double left = 0;
  for (const std::vector<double>& each : series) {
    if (each.size() < 3) continue;
    left += static_cast<double>(each.size()) * (1 - variance_of_mean(noise.correlation, each.size()));
  }
  noise.sigma = std::sqrt(squares / left);
  return noise;
}

double student_quantile(double confidence, double degrees) {
  const double x = normal_quantile(confidence);
  const double n = degrees;
  const double x2 = x * x;
  const double first = x * (x2 + 1) / 4;
  const double second = x * (5 * x2 * x2 + 16 * x2 + 3) / 96;
  const double third = x * (3 * x2 * x2 * x2 + 19 * x2 * x2 + 17 * x2 - 15) / 384;
  const double fourth =
      x * (79 * x2 * x2 * x2 * x2 + 776 * x2 * x2 * x2 + 1482 * x2 * x2 - 1920 * x2 - 945) / 92160;
  return x + first / n + second / (n * n) + third / (n * n * n) + fourth / (n * n * n * n);
}

double Estimate::lower(double confidence) const {
  if (!says_something()) return -std::numeric_limits<double>::infinity();
  return mean - student_quantile(confidence, effective - 1) * error;
}

double Estimate::upper(double confidence) const {
  if (!says_something()) return std::numeric_limits<double>::infinity();
  return mean + student_quantile(confidence, effective - 1) * error;
}

Estimate estimate_mean(std::vector<double> values, double correlation) {
  if (values.size() < 3) return {};
  const double middle = accounting::median(values);
  std::vector<double> distances;
  for (const double value : values) distances.push_back(std::abs(value - middle));
  constexpr double sigmas = 5;
  constexpr double sigma_of_median_deviation = 1.4826;
  const double far = sigmas * sigma_of_median_deviation * accounting::median(std::move(distances));
  // Where more than half are alike there is no deviation to go by.
  if (far > 0) {
    for (double& value : values) value = std::clamp(value, middle - far, middle + far);
  }
  const SeriesNoise noise = noise_of({&values, 1});
  const double c = std::max(noise.correlation, std::min(correlation, most_correlation));
  const double share = variance_of_mean(c, values.size());
  const double own = variance_of_mean(noise.correlation, values.size());
  // noise.sigma was corrected for its own correlation; correct it for the larger one.
  const double sigma = noise.sigma * std::sqrt((1 - own) / (1 - share));
  return {mean_of(values), sigma * std::sqrt(share), 1 / share};
}

}  // namespace penstock::budget
