#include "model/nonfinite.h"

#include <cmath>

namespace penstock::model {

int64_t NonfiniteSearch::count(Tensor tensor) {
  const Tensor counter = rank_.nonfinite_count();
  stream_.fill_zero(counter.data, counter.bytes());
  rank_.math().reduce->count_nonfinite(stream_, tensor.view(Shape{tensor.elements()}), counter.as<int64_t>());
  int64_t host = 0;
  stream_.copy(&host, counter.data, sizeof(host));
  stream_.synchronize();
  return host;
}

void NonfiniteSearch::look(int unit, const std::string& what, Tensor tensor) {
  if (found_ || !tensor) return;
  const int64_t bad = count(tensor);
  if (bad > 0) found_ = Nonfinite{unit, name_of(unit_at(rank_.config().model, unit)), what, bad};
}

void NonfiniteSearch::look_at_parameters(int unit, bool gradients) {
  for (const Parameter& parameter : rank_.parameters().parameters()) {
    if (parameter.unit != unit) continue;
    look(unit, (gradients ? "gradient of " : "parameter ") + parameter.spec.name,
         gradients ? parameter.gradient : parameter.compute);
  }
}

void NonfiniteSearch::look_at_loss(int unit) {
  if (found_) return;
  double loss = 0;
  stream_.copy(&loss, rank_.losses().data, sizeof(loss));
  stream_.synchronize();
  if (!std::isfinite(loss)) found_ = Nonfinite{unit, name_of(unit_at(rank_.config().model, unit)), "loss", 1};
}

std::optional<Nonfinite> NonfiniteSearch::search_forward(size_t stage, const SideBand& inputs) {
  found_.reset();
  Stage& at = rank_.stage(stage);
  at.observe([this](int unit, Phase /*phase*/, Tensor handed) {
    look_at_parameters(unit, false);
    look(unit, "output", handed);
  });
  at.forward(stream_, SlotIds{}, 0, inputs, Pass::training);
  stream_.synchronize();
  at.observe({});
  return found_;
}

std::optional<Nonfinite> NonfiniteSearch::search_backward(size_t stage) {
  found_.reset();
  Stage& at = rank_.stage(stage);
  const int head = unit_count(rank_.config().model) - 1;
  rank_.parameters().zero_gradients(stream_);
  at.observe([this, head](int unit, Phase phase, Tensor handed) {
    if (phase == Phase::backward_input) {
      if (unit == head) look_at_loss(unit);
      look_at_parameters(unit, true);
      look(unit, "gradient of the input", handed);
    } else if (phase == Phase::backward_weight) {
      look_at_parameters(unit, true);
    }
  });
  at.backward_input(stream_, SlotIds{}, 0);
  at.backward_weight(stream_, SlotIds{});
  stream_.synchronize();
  at.observe({});
  return found_;
}

std::optional<Nonfinite> NonfiniteSearch::search(const SideBand& inputs) {
  std::optional<Nonfinite> found = search_forward(0, inputs);
  return found ? found : search_backward(0);
}

}  // namespace penstock::model
