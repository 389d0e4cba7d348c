// The search for what is not finite, between ranks: a micro-batch passes the stages one after another, as in
// a step without any overlap.
#include <array>
#include <limits>
#include <string>

#include "parallel/runtime/pipeline_engine.h"

namespace penstock::runtime {

using model::Nonfinite;
using model::SideBand;

template <class Source, class Target>
void PipelineEngine::hand_over(int from, int to, Source source, Target target) {
  transport::Communicator& pipeline = *communicators_.pipeline;
  if (owns(from) && owns(to)) {
    model::take_from_wire(stream(), rank_.math(), source(), target());
  } else if (owns(from)) {
    pipeline.exchange(stream(), {transport::send_to(plan_.owner(to), source())});
  } else if (owns(to)) {
    pipeline.exchange(stream(), {transport::receive_from(plan_.owner(from), arrival_)});
    model::take_from_wire(stream(), rank_.math(), arrival_, target());
  }
}

std::optional<Nonfinite> PipelineEngine::search_forward(const SideBand& micro_batch) {
  model::NonfiniteSearch search(rank_, stream());
  std::optional<Nonfinite> found;
  for (int stage = 0; stage <= plan_.last_stage(); ++stage) {
    if (stage > 0) {
      hand_over(
          stage - 1, stage, [&] { return rank_.stage(index_of(stage - 1)).output(0); },
          [&] { return rank_.stage(index_of(stage)).input({}); });
    }
    if (!owns(stage)) continue;
    const auto here = search.search_forward(index_of(stage), micro_batch);
    if (!found) found = here;
  }
  return found;
}

std::optional<Nonfinite> PipelineEngine::search_backward() {
  model::NonfiniteSearch search(rank_, stream());
  std::optional<Nonfinite> found;
  for (int stage = plan_.last_stage(); stage >= 0; --stage) {
    if (stage < plan_.last_stage()) {
      hand_over(
          stage + 1, stage, [&] { return rank_.stage(index_of(stage + 1)).d_input(0); },
          [&] { return rank_.stage(index_of(stage)).d_output({}); });
    }
    if (!owns(stage)) continue;
    const auto here = search.search_backward(index_of(stage));
    if (!found) found = here;
  }
  return found;
}

// The first replica that found something; of its ranks' findings the first in the direction of the pass.
std::optional<PipelineEngine::Finding> PipelineEngine::agree(const std::optional<Nonfinite>& found,
                                                             size_t micro_batch, bool forward) {
  constexpr int64_t nobody = std::numeric_limits<int64_t>::max();
  const int units = plan_.first_unit(plan_.last_stage()) + plan_.units.back();
  std::array<int64_t, 1> first{nobody};
  if (found) first[0] = place_.replica * units + (forward ? found->unit : units - 1 - found->unit);
  world_.all_reduce(first, transport::Reduction::minimum);
  if (first[0] == nobody) return std::nullopt;
  Finding agreed;
  agreed.micro_batch = micro_batch;
  agreed.replica = static_cast<int>(first[0] / units);
  const int at = static_cast<int>(first[0] % units);
  agreed.where.unit = forward ? at : units - 1 - at;
  agreed.where.unit_name = name_of(model::unit_at(rank_.config().model, agreed.where.unit));
  int stage = plan_.last_stage();
  while (plan_.first_unit(stage) > agreed.where.unit) --stage;
  const int finder = plan_.topology.world_rank({plan_.owner(stage), agreed.replica});
  agreed.stage = stage;
  agreed.rank = finder;
  agreed.backward = !forward;
  const bool ours = world_.rank() == finder;
  agreed.where.what = world_.broadcast(ours ? found->what : std::string(), finder);
  agreed.where.count =
      std::stoll(world_.broadcast(ours ? std::to_string(found->count) : std::string(), finder));
  return agreed;
}

std::optional<PipelineEngine::Finding> PipelineEngine::find_nonfinite(
    std::span<const SideBand> micro_batches) {
  std::optional<Finding> found;
  guarded([&] {
    drain_unguarded();
    gather_parameters();
    for (size_t m = 0; m < micro_batches.size() && !found; ++m) {
      rank_.zero_losses(stream());
      found = agree(search_forward(micro_batches[m]), m, true);
      if (!found) found = agree(search_backward(), m, false);
    }
  });
  return found;
}

}  // namespace penstock::runtime
