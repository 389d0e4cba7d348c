#pragma once

#include <memory>
#include <vector>

#include "kernels/device/device.h"
#include "kernels/math/math.h"
#include "model/rank_model.h"

namespace penstock::runtime {

/// A rank that holds one unit, filled with random numbers, ready to run any action again and again.
class LoneUnit {
 public:
  /// `config`: of one stage. The device has no arena.
  LoneUnit(Device& device, math::Math& math, model::RankConfig config);
  ~LoneUnit();
  LoneUnit(const LoneUnit&) = delete;
  LoneUnit& operator=(const LoneUnit&) = delete;

  Stream& stream() { return *stream_; }
  model::RankModel& rank() { return rank_; }
  const model::SideBand& inputs() const { return inputs_; }

  void forward();
  /// `recomputed`: written when the recomputation before it is done.
  void backward_input(double* recomputed);
  void backward_weight();
  void optimizer_step();

 private:
  void fill(const Tensor& tensor, double deviation);
  void fill_side_band();

  model::RankModel rank_;
  std::unique_ptr<Stream> stream_;
  model::SideBand inputs_;  ///< views of the vectors
  std::vector<int32_t> tokens_, targets_, positions_, starts_;
  std::vector<int64_t> samples_;
};

}  // namespace penstock::runtime
