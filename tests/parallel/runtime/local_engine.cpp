#include "tests/parallel/runtime/local_engine.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock::runtime {

using model::Pass;
using model::SideBand;

LocalEngine::LocalEngine(Device& device, math::Math& math, model::RankConfig config)
    : device_(device),
      rank_(device, math, std::move(config)),
      stream_(device.create_stream("compute", StreamUse::compute)) {
  if (rank_.stages() != 1 || !rank_.stage(0).has_embedding() || !rank_.stage(0).has_head()) {
    throw UsageError("a local engine runs one stage that holds the whole model");
  }
}

LocalEngine::~LocalEngine() {
  stream_.reset();  // runs out of work before the memory that it uses goes
  if (logits_) device_.destroy_arena(ArenaTag::communication);
}

void LocalEngine::start_step(const model::StepInputs& inputs, std::span<const SideBand> micro_batches) {
  if (static_cast<int64_t>(micro_batches.size()) > rank_.config().micro_batches) {
    throw UsageError(fmt::format("a step of {} micro-batches in an engine made for {}", micro_batches.size(),
                                 rank_.config().micro_batches));
  }
  model::Stage& stage = rank_.stage(0);
  rank_.optimizer().begin(*stream_, inputs);
  rank_.zero_losses(*stream_);
  for (size_t m = 0; m < micro_batches.size(); ++m) {
    stage.forward(*stream_, {}, static_cast<int64_t>(m), micro_batches[m], Pass::training);
    stage.backward_input(*stream_, {}, static_cast<int64_t>(m));
    stage.backward_weight(*stream_, {});
  }
  rank_.optimizer().finish(*stream_);
}

double LocalEngine::evaluate(std::span<const SideBand> micro_batches) {
  const auto group = static_cast<size_t>(rank_.config().micro_batches);
  double sum = 0;
  for (size_t first = 0; first < micro_batches.size(); first += group) {
    const auto part = micro_batches.subspan(first, std::min(group, micro_batches.size() - first));
    rank_.zero_losses(*stream_);
    for (size_t m = 0; m < part.size(); ++m) {
      rank_.stage(0).forward(*stream_, {}, static_cast<int64_t>(m), part[m], Pass::evaluation);
    }
    sum += rank_.read(*stream_).loss_sum;
  }
  return sum;
}

std::span<const float> LocalEngine::logits(const SideBand& micro_batch, int64_t row) {
  const int64_t vocab = rank_.config().model.vocab_size;
  if (!logits_) {
    const Shape shape{1, vocab};
    Arena& arena =
        device_.create_arena(ArenaTag::communication, aligned(static_cast<size_t>(vocab) * sizeof(float)));
    logits_ = arena.allocate("generation.logits", DType::fp32, shape);
    host_logits_.resize(static_cast<size_t>(vocab));
  }
  model::Stage& stage = rank_.stage(0);
  rank_.zero_losses(*stream_);
  stage.forward(*stream_, {}, 0, micro_batch, Pass::evaluation);
  stage.logits(*stream_, {}, row, 1, logits_);
  stream_->copy(host_logits_.data(), logits_.data, logits_.bytes());
  stream_->synchronize();
  return host_logits_;
}

std::optional<LocalEngine::Finding> LocalEngine::find_nonfinite(std::span<const SideBand> micro_batches) {
  for (size_t m = 0; m < micro_batches.size(); ++m) {
    model::NonfiniteSearch search(rank_, *stream_);
    if (const auto found = search.search(micro_batches[m])) return Finding{*found, m};
  }
  return std::nullopt;
}

}  // namespace penstock::runtime
