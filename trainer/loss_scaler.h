#pragma once

#include <cstdint>

#include <nlohmann/json.hpp>

#include "trainer/job/job.h"

namespace penstock {

/// Whether anything of the job is fp16, on its way or where it is computed.
bool scales_loss(const Job& job);

/// Under which name LossScaler::state() stands in a checkpoint's state list.
inline constexpr const char* loss_scale_state = "loss_scale";

/// Dynamic loss scaling (Micikevicius et al., 2018). It is told what became of each step, which all ranks
/// know alike (the norm over all of them was finite or not), so that their scales stay equal.
class LossScaler {
 public:
  explicit LossScaler(const Job& job);

  /// Whether there is any; if not, the scale is 1 and nothing changes it.
  bool active() const { return active_; }
  /// Of the next step.
  double scale() const { return scale_; }

  /// A step was applied. Whether the scale grew.
  bool succeeded();
  /// Gradients overflowed and no weight was changed. Whether the scale could be lowered; if not, scaling is
  /// not what was wrong.
  bool overflowed();

  /// {"scale", "good_steps"}: part of a checkpoint's state, so that a resumed run scales as an uninterrupted
  /// one does.
  nlohmann::json state() const;
  /// JSON of another form is refused by nlohmann's exceptions.
  void restore(const nlohmann::json& state);

 private:
  LossScalingSection section_;
  bool active_;
  double scale_;
  int64_t good_steps_ = 0;  ///< in a row, since the scale changed
};

}  // namespace penstock
