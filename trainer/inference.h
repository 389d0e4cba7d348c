#pragma once

#include <memory>
#include <string>

#include "parallel/runtime/local_engine.h"
#include "trainer/backend.h"
#include "trainer/corpus.h"
#include "trainer/job/job.h"

namespace penstock {

/// A trained model, loaded to be evaluated or to generate.
struct Inference {
  Job job;                                           ///< resolved, vocabulary included
  std::shared_ptr<const data::Tokenizer> tokenizer;  ///< null where the job names none
  Backend backend;
  std::unique_ptr<runtime::LocalEngine> engine;
  int64_t step = 0;        ///< of the checkpoint
  std::string checkpoint;  ///< its folder
};

/// Loads a checkpoint: the one in folder `path`, or with an empty path the newest whole one of the job's run
/// folder. `micro_batches`: the most that are evaluated at once. CheckpointError if there is none, or it is
/// another model's.
Inference open_inference(Job job, const std::string& path, int64_t micro_batches);

}  // namespace penstock
