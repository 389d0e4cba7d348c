#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/rank_model.h"

namespace penstock::model {

/// Where NaN or infinity was first seen.
struct Nonfinite {
  int unit = 0;
  std::string unit_name;  ///< "mlp_3"
  std::string what;       ///< "output", "loss", "gradient of the input", "parameter layers.3.mlp.up.weight",
                          ///< "gradient of …"
  int64_t count = 0;      ///< how many values of it (a loss: 1)
};

/// Runs one micro-batch of a bad step again through a stage, unit by unit, waiting after each, and names the
/// first unit with a value that is not finite: in the order of the forward, its parameters before its output;
/// then, if the forward is clean, in the order of the backward the loss, the unit's parameter gradients, and
/// the gradient that it hands on.
///
/// Between ranks: search_forward on each stage in turn, boundary tensors handed on as in a step, then
/// search_backward from the last; the first finding is the answer. Gradients are overwritten: the step is
/// lost already.
class NonfiniteSearch {
 public:
  NonfiniteSearch(RankModel& rank, Stream& stream) : rank_(rank), stream_(stream) {}

  std::optional<Nonfinite> search_forward(size_t stage, const SideBand& inputs);
  std::optional<Nonfinite> search_backward(size_t stage);

  /// Both, for a rank whose one stage is the whole model.
  std::optional<Nonfinite> search(const SideBand& inputs);

 private:
  int64_t count(Tensor tensor);
  void look(int unit, const std::string& what, Tensor tensor);
  void look_at_parameters(int unit, bool gradients);
  void look_at_loss(int unit);

  RankModel& rank_;
  Stream& stream_;
  std::optional<Nonfinite> found_;
};

}  // namespace penstock::model
