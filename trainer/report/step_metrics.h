#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace penstock::report {

/// What one rank did in a step: milliseconds by cause, and who was behind its waits. Written as an object of
/// `ranks`.
struct RankMetrics {
  int rank = 0;  ///< in its pipeline
  int replica = 0;
  int root_rank = -1;     ///< who was behind most of its waits; −1: nobody, and neither is written
  int root_link_to = -1;  ///< ≥ 0: the message from root_rank to that rank
  struct Value {
    const char* name = "";
    double value = 0;
  };
  /// The first `count` count.
  std::array<Value, 24> values{};
  size_t count = 0;

  /// What would be written as zero is left out: that is the rule.
  void add(const char* name, double value) {
    if ((value >= 0.0005 || value <= -0.0005) && count < values.size()) values[count++] = {name, value};
  }
};

/// The numbers of one optimizer step. What is not known stays absent and is not reported. The names in the
/// reports are those of scalars().
struct StepMetrics {
  int64_t step = 0;    ///< steps completed, this one included
  int64_t tokens = 0;  ///< target tokens since the run began, this step included
  std::optional<double> loss;
  std::optional<double> grad_norm;
  std::optional<double> learning_rate;
  std::optional<double> loss_scale;  ///< where the loss is scaled
  std::optional<double> tokens_per_second;
  std::optional<double> step_ms;
  std::optional<double> mfu;           ///< model FLOP/s ÷ the vendor's peak
  std::optional<double> matmul_share;  ///< model FLOP/s ÷ the rate of a large product here
  std::optional<double> memory_peak_bytes;
  std::optional<double> bubble_ratio;
  std::optional<double> bubble_ratio_rank_span;
  std::optional<double> idle_ratio;
  std::optional<double> stage_imbalance;
  std::optional<double> slowest_stage;
  std::optional<double> fill_ms;
  std::optional<double> drain_ms;
  std::optional<double> micro_batch_latency_ms;
  std::optional<double> predicted_step_ms;
  std::vector<RankMetrics> ranks;  ///< by replica and pipeline rank; empty: not known

  struct Scalar {
    const char* name;
    std::optional<double> value;
  };
  /// Every scalar with its name, in the order of a metrics line.
  std::array<Scalar, 18> scalars() const {
    return {{{"loss", loss},
             {"grad_norm", grad_norm},
             {"learning_rate", learning_rate},
             {"loss_scale", loss_scale},
             {"tokens_per_second", tokens_per_second},
             {"step_ms", step_ms},
             {"mfu", mfu},
             {"matmul_share", matmul_share},
             {"memory_peak_bytes", memory_peak_bytes},
             {"bubble_ratio", bubble_ratio},
             {"bubble_ratio_rank_span", bubble_ratio_rank_span},
             {"idle_ratio", idle_ratio},
             {"stage_imbalance", stage_imbalance},
             {"slowest_stage", slowest_stage},
             {"fill_ms", fill_ms},
             {"drain_ms", drain_ms},
             {"micro_batch_latency_ms", micro_batch_latency_ms},
             {"predicted_step_ms", predicted_step_ms}}};
  }
};

}  // namespace penstock::report
