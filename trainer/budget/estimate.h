// Means of what steps measure, and how sure they are, where one step resembles the next.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace penstock::budget {

/// Variance of the mean of `count` values in a row, as a share of one value's variance, where values k apart
/// correlate by correlation^k: (1 + 2 Σ (1 − k/n) c^k) / n.
double variance_of_mean(double correlation, size_t count);

/// How series vary about their own means.
struct SeriesNoise {
  double sigma = 0;
  double correlation = 0;  ///< of neighbours, 0 … 0.98

  /// What varies less is as good as constant, however it is correlated: values are shares of a step, or near
  /// 1.
  static constexpr double negligible = 1e-4;
};
/// Pooled over the series. Their means are their own: what that hides of the variance and of the correlation
/// (Kendall 1954: (1 + 4 c) / n) is put back.
SeriesNoise noise_of(std::span<const std::vector<double>> series);

/// Quantile of Student's t with `degrees` ≥ 4 of freedom; `confidence` in (0.5, 1). Abramowitz and Stegun
/// 26.7.5: within 1 % at 4 degrees.
double student_quantile(double confidence, double degrees);

/// A mean with its standard error.
struct Estimate {
  double mean = 0;
  double error = 0;
  double effective = 0;  ///< as many independent values would say as much

  /// Fewer say nothing.
  static constexpr double least_effective = 5;
  bool says_something() const { return effective >= least_effective; }
  /// One-sided bounds; infinite where it says nothing.
  double lower(double confidence) const;
  double upper(double confidence) const;
};
/// Of values in a row, which correlate at least by `correlation`. Values further from the median than five
/// standard deviations (by the median deviation) count as that far: one hiccup decides nothing.
Estimate estimate_mean(std::vector<double> values, double correlation);

}  // namespace penstock::budget
