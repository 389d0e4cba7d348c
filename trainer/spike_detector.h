#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include <nlohmann/json.hpp>

namespace penstock {

/// Compares each loss with the recent ones. Its window is part of a checkpoint's state, so that a resumed run
/// judges as an uninterrupted one does.
class SpikeDetector {
 public:
  /// A loss more than `z` standard deviations above the mean of the last `window` (at least 8) losses is a
  /// spike.
  SpikeDetector(double z, int64_t window);

  /// A loss above it is a spike; infinity while nothing is judged.
  double limit() const;

  /// The loss's distance from the window's mean in standard deviations if it is a spike, else nothing. A loss
  /// that is no spike joins the window; one that is does not, lest it hides the next. Non-finite losses are
  /// ignored.
  std::optional<double> judge(double loss);

  nlohmann::json state() const;
  /// Takes over a state() of any window size; JSON of another form is refused by nlohmann's exceptions.
  void restore(const nlohmann::json& state);

 private:
  struct Window {
    double mean = 0;
    double deviation = 0;
  };
  Window window() const;

  static constexpr size_t least = 8;  ///< losses before anything is judged
  double z_;
  size_t window_;
  std::deque<double> losses_;
};

}  // namespace penstock
