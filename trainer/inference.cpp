#include "trainer/inference.h"

#include <filesystem>

#include <fmt/format.h>

#include "trainer/checkpoint/checkpoint_error.h"
#include "trainer/checkpoint/checkpoint_reader.h"
#include "trainer/model_state.h"

namespace penstock {
namespace {

checkpoint::Checkpoint open_checkpoint(const Job& job, const std::string& path) {
  using checkpoint::Depth;
  if (!path.empty()) return checkpoint::Checkpoint::open(path, Depth::full);
  const std::string folder = (std::filesystem::path(job.run.folder) / job.run.name / "checkpoints").string();
  checkpoint::Latest latest = checkpoint::latest(folder, Depth::full);
  for (const std::string& damaged : latest.passed_over)
    fmt::print(stderr, "penstock: passed over: {}\n", damaged);
  if (!latest.checkpoint) {
    throw checkpoint::CheckpointError(
        fmt::format("{} holds no checkpoint; train the job first, or name one with --checkpoint", folder));
  }
  return std::move(*latest.checkpoint);
}

}  // namespace

Inference open_inference(Job job, const std::string& path, int64_t micro_batches) {
  Inference inference;
  inference.tokenizer = Corpus::open_tokenizer(job);
  inference.job = std::move(job);
  const checkpoint::Checkpoint checkpoint = open_checkpoint(inference.job, path);
  inference.backend = make_backend(inference.job, 0);
  inference.engine = std::make_unique<runtime::LocalEngine>(*inference.backend.device, inference.backend.math,
                                                            whole_model_config(inference.job, micro_batches));
  inference.engine->rank().initialise(inference.engine->stream());  // constants, such as the rotary table
  load_model(checkpoint, inference.engine->rank(), inference.engine->stream());
  inference.step = checkpoint.manifest().step;
  inference.checkpoint = checkpoint.path();
  return inference;
}

}  // namespace penstock
