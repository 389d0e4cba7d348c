#pragma once

#include <memory>
#include <string>

#include "kernels/transport/world.h"
#include "parallel/runtime/cached_engine.h"
#include "parallel/runtime/pipeline_engine.h"
#include "trainer/backend.h"
#include "trainer/corpus.h"
#include "trainer/job/job.h"
#include "trainer/memory_report.h"

namespace penstock {

/// A trained model, loaded to be used: one rank's part of it.
struct LoadedModel {
  Job job;                                           ///< resolved, vocabulary included
  std::shared_ptr<const data::Tokenizer> tokenizer;  ///< null where the job names none
  Backend backend;
  int64_t step = 0;        ///< of the checkpoint
  std::string checkpoint;  ///< its folder
  MemoryReport memory;     ///< what it takes
};

/// To be evaluated.
struct Inference : LoadedModel {
  std::unique_ptr<runtime::PipelineEngine> engine;
};

/// To generate.
struct GeneratingModel : LoadedModel {
  std::unique_ptr<runtime::CachedEngine> engine;
};

/// Loads a checkpoint: the one in folder `path`, or with an empty path the newest whole one of the job's run
/// folder. Collective over the world, whose size is the job's. `logits`: PipelineEngine::logits() will be
/// called. CheckpointError if there is none, or it is another model's; MemoryLimitError if there is no room.
Inference open_inference(Job job, const std::string& path, transport::World& world, bool logits);

/// The same, for texts that are generated: `cache.slots` at once. `tokenizer`: of
/// Corpus::open_tokenizer(job).
GeneratingModel open_generation(Job job, std::shared_ptr<const data::Tokenizer> tokenizer,
                                const std::string& path, transport::World& world,
                                const model::CacheConfig& cache);

}  // namespace penstock
