#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/math/math.h"
#include "parallel/runtime/sleeping_stage.h"

namespace penstock::bench {

/// A stage whose actions are matrix products of one size, repeated, on a core of its own.
class ProductStage final : public runtime::SleepingStage {
 public:
  struct Work {
    int forward = 1;  ///< products of an action
    int backward_input = 1;
    int backward_weight = 1;
  };
  /// The compute stream's worker is bound to processor `core`, if there is one.
  ProductStage(Device& device, const runtime::ReplayTimes& times, int stage,
               const std::vector<WindowEnd>& windows, const Work& work, int core);

  /// Seconds of one product on this thread, the shortest of several.
  static double product_seconds();

 private:
  void enqueue(Stream& stream, const char* name, schedule::Op op, int micro_batch) override;

  math::Math math_;
  std::unique_ptr<math::Linear> linear_;
  std::vector<char> memory_;
  Tensor x_, w_, y_, workspace_;
  Work work_;
  int core_;
  bool bound_ = false;
};

}  // namespace penstock::bench
