#pragma once

#include <memory>

#include "kernels/transport/world.h"
#include "parallel/runtime/pipeline_engine.h"
#include "trainer/accounting/host_times.h"
#include "trainer/corpus.h"
#include "trainer/job/job.h"
#include "trainer/run_reports.h"
#include "trainer/step_batches.h"
#include "trainer/watchdog/progress.h"

namespace penstock {

/// What a rank's participants in the step loop share. All of it outlives them.
struct RankContext {
  const Job& job;  ///< as it is arranged now
  transport::World& world;
  std::unique_ptr<runtime::PipelineEngine>& engine;  ///< never null; another one after a rearrangement
  Corpus& corpus;
  RunReports& reports;
  accounting::HostTimes& host;
  watchdog::Progress& progress;

  bool leads() const { return world.rank() == 0; }
};

/// The engine that is there now is the one that the rank's progress tells of.
void follow_engine(const RankContext& context);

/// Whether a rank needs token files: it holds the first or the last stage, or attention is masked by
/// documents.
bool needs_tokens(const Job& job, const runtime::PipelinePlan& plan, int pipeline_rank);

/// Target tokens of `sequences`, over all replicas: arithmetic, but for masked documents, whose last targets
/// do not count. Those are counted in the first `count` micro-batches of everybody's `own` (collective), once
/// a replica: by its rank that `counts`.
int64_t target_tokens_of_all(const Job& job, transport::World& world, int64_t sequences, const BatchSet& own,
                             size_t count, bool counts);

}  // namespace penstock
