#include "trainer/inference.h"

#include <filesystem>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "trainer/checkpoint/checkpoint_error.h"
#include "trainer/checkpoint/checkpoint_reader.h"
#include "trainer/job_plan.h"
#include "trainer/memory_limit.h"
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

// Nothing of a step is asked for; each replica has the whole of what it loads.
runtime::PipelineRequest forward_request(const Job& job, bool logits) {
  Job plain = plain_job(job);
  plain.parallel.sharded_optimizer = false;
  runtime::PipelineRequest request = pipeline_request(plain, logits);
  request.forward_only = true;
  return request;
}

// Rank 0 reads every byte and says which checkpoint it is; the others open that one. What it needs is known
// before anything is reserved.
checkpoint::Checkpoint find_checkpoint(LoadedModel& model, const std::string& path, transport::World& world) {
  std::optional<checkpoint::Checkpoint> checkpoint;
  if (world.rank() == 0) checkpoint = open_checkpoint(model.job, path);
  model.checkpoint = world.broadcast(checkpoint ? checkpoint->path() : std::string(), 0);
  if (!checkpoint) checkpoint = checkpoint::Checkpoint::open(model.checkpoint, checkpoint::Depth::quick);
  model.step = checkpoint->manifest().step;
  model.backend = make_backend(model.job, world);
  const std::string refusal = adopt_matmul_plans(model.backend, checkpoint->manifest());
  if (!refusal.empty() && world.rank() == 0) fmt::print(stderr, "penstock: {}\n", refusal);
  return std::move(*checkpoint);
}

// Nothing is saved.
MemoryReport what_it_takes(LoadedModel& model, const runtime::PipelinePlan& plan) {
  MemoryReport report = memory_report(model.job, model.backend, plan);
  for (RankMemory& rank : report.ranks) rank.snapshot = 0;
  return report;
}

void check_memory(const LoadedModel& model, transport::World& world, const std::string& advice) {
  try {
    check_memory_limit(model.memory, model.job, *model.backend.device, world.hosts().transport() == "inproc");
  } catch (const MemoryLimitError& error) {
    throw MemoryLimitError(fmt::format("{}{}", error.what(), advice));
  }
}

}  // namespace

Inference open_inference(Job job, const std::string& path, transport::World& world, bool logits) {
  check_same_job(job, world);
  Inference inference;
  inference.tokenizer = Corpus::open_tokenizer(job);
  inference.job = std::move(job);
  const checkpoint::Checkpoint checkpoint = find_checkpoint(inference, path, world);
  runtime::PipelinePlan plan = runtime::plan_pipeline(forward_request(inference.job, logits));
  inference.memory = what_it_takes(inference, plan);
  check_memory(inference, world, "");
  inference.engine = std::make_unique<runtime::PipelineEngine>(
      *inference.backend.device, inference.backend.math, world, std::move(plan));
  model::RankModel& rank = inference.engine->rank();
  rank.parameters().clear(inference.engine->stream());
  rank.load_constants(inference.engine->stream());
  load_model(checkpoint, rank, inference.engine->stream());
  return inference;
}

GeneratingModel open_generation(Job job, std::shared_ptr<const data::Tokenizer> tokenizer,
                                const std::string& path, transport::World& world,
                                const model::CacheConfig& cache) {
  // One sequence at a time is what passes; every replica writes the same.
  job.batch.micro = 1;
  job.batch.global = job.parallel.data;
  check_same_job(job, world);
  GeneratingModel made;
  made.tokenizer = std::move(tokenizer);
  made.job = std::move(job);
  const checkpoint::Checkpoint checkpoint = find_checkpoint(made, path, world);
  runtime::PipelinePlan plan = runtime::plan_pipeline(forward_request(made.job, false));
  made.memory = what_it_takes(made, plan);
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank)
    made.memory.ranks[rank].device = model::plan_cached_memory(made.backend.math, plan.ranks[rank], cache);
  check_memory(
      made, world,
      fmt::format("; or generate fewer texts at once (--batch, {} here), or shorter ones ({} tokens of each "
                  "are kept)",
                  cache.slots, cache.positions));
  made.engine = std::make_unique<runtime::CachedEngine>(*made.backend.device, made.backend.math, world,
                                                        std::move(plan), cache);
  model::CachedModel& rank = made.engine->rank();
  rank.parameters().clear(made.engine->stream());
  rank.clear_state(made.engine->stream());
  load_parameters(checkpoint, made.job.model, rank.parameters(), made.backend.device->kind(),
                  made.backend.math, made.engine->stream());
  return made;
}

}  // namespace penstock
