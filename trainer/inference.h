#pragma once

#include <memory>
#include <string>

#include "kernels/transport/world.h"
#include "parallel/runtime/pipeline_engine.h"
#include "trainer/backend.h"
#include "trainer/corpus.h"
#include "trainer/job/job.h"

namespace penstock {

/// A trained model, loaded to be evaluated or to generate: one rank's part of it.
struct Inference {
  Job job;                                           ///< resolved, vocabulary included
  std::shared_ptr<const data::Tokenizer> tokenizer;  ///< null where the job names none
  Backend backend;
  std::unique_ptr<runtime::PipelineEngine> engine;
  int64_t step = 0;        ///< of the checkpoint
  std::string checkpoint;  ///< its folder
};

/// Loads a checkpoint: the one in folder `path`, or with an empty path the newest whole one of the job's run
/// folder. Collective over the world, whose size is the job's. `logits`: it will generate. CheckpointError if
/// there is none, or it is another model's.
Inference open_inference(Job job, const std::string& path, transport::World& world, bool logits);

}  // namespace penstock
