#include "trainer/inference.h"

#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "trainer/checkpoint/checkpoint_error.h"
#include "trainer/checkpoint/checkpoint_reader.h"
#include "trainer/job_plan.h"
#include "trainer/model_state.h"
#include "trainer/run_matmul_plans.h"
#include "trainer/same_job.h"

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

Inference open_inference(Job job, const std::string& path, transport::World& world, bool logits) {
  check_same_job(job, world);
  Inference inference;
  inference.tokenizer = Corpus::open_tokenizer(job);
  inference.job = std::move(job);
  // Rank 0 reads every byte and says which checkpoint it is; the others open that one.
  std::optional<checkpoint::Checkpoint> checkpoint;
  if (world.rank() == 0) checkpoint = open_checkpoint(inference.job, path);
  inference.checkpoint = world.broadcast(checkpoint ? checkpoint->path() : std::string(), 0);
  if (!checkpoint) checkpoint = checkpoint::Checkpoint::open(inference.checkpoint, checkpoint::Depth::quick);
  inference.step = checkpoint->manifest().step;
  inference.backend = make_backend(inference.job, world);
  const std::string refusal = adopt_matmul_plans(inference.backend, checkpoint->manifest());
  if (!refusal.empty() && world.rank() == 0) fmt::print(stderr, "penstock: {}\n", refusal);
  inference.engine = std::make_unique<runtime::PipelineEngine>(
      *inference.backend.device, inference.backend.math, world,
      runtime::plan_pipeline(pipeline_request(plain_job(inference.job), logits)));
  inference.engine->rank().initialise(inference.engine->stream());  // constants, such as the rotary table
  load_model(*checkpoint, inference.engine->rank(), inference.engine->stream());
  return inference;
}

}  // namespace penstock
