#include "trainer/rank_context.h"

#include <array>

namespace penstock {

void follow_engine(const RankContext& context) {
  const runtime::PipelineEngine& engine = *context.engine;
  int first = -1;
  for (int stage = 0; first < 0 && stage < engine.plan().stages(); ++stage) {
    if (engine.owns(stage)) first = stage;
  }
  context.progress.follow(engine.flights(), first,
                          engine.plan().topology.pipeline_of(engine.place().replica));
}

bool needs_tokens(const Job& job, const runtime::PipelinePlan& plan, int pipeline_rank) {
  return job.data.document_mask || plan.holds_first(pipeline_rank) || plan.holds_last(pipeline_rank);
}

int64_t target_tokens_of_all(const Job& job, transport::World& world, int64_t sequences, const BatchSet& own,
                             size_t count, bool counts) {
  if (!job.data.document_mask) return sequences * job.model.sequence_length;
  std::array<int64_t, 1> tokens{counts ? own.target_tokens(count) : 0};
  world.all_reduce(tokens, transport::Reduction::sum);
  return tokens[0];
}

}  // namespace penstock
