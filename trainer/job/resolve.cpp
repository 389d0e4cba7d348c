#include "trainer/job/resolve.h"

#include <algorithm>
#include <string>

#include "parallel/schedule/catalogue.h"

namespace penstock {
namespace {

void resolve_model(ModelSection& model, const GivenKeys& given) {
  const bool gpt2 = model.family == Family::gpt2;
  if (!given.given("model.kv_heads")) model.kv_heads = model.heads;
  if (!given.given("model.head_dim") && model.heads > 0) model.head_dim = model.hidden_size / model.heads;
  if (!given.given("model.ffn_hidden_size") && gpt2) model.ffn_hidden_size = 4 * model.hidden_size;
  if (!given.given("model.tie_embeddings")) model.tie_embeddings = gpt2;
  if (!given.given("model.qkv_bias")) model.qkv_bias = gpt2;
}

const schedule::ScheduleKind* kind_named(const std::string& name) {
  for (const schedule::ScheduleKind& kind : schedule::schedule_kinds()) {
    if (name == kind.name) return &kind;
  }
  return nullptr;
}

void resolve_schedule(ParallelSection& parallel, const GivenKeys& given) {
  const bool automatic = parallel.schedule == "auto";
  if (!given.given("parallel.chunks")) {
    const schedule::ScheduleKind* kind = kind_named(parallel.schedule);
    parallel.chunks = automatic ? 0 : kind != nullptr ? kind->default_chunks : 1;
  }
  if (automatic && !given.given("parallel.warmup_slack")) parallel.warmup_slack = -1;
  // Listed stages say how many chunks they are.
  const auto listed = static_cast<int64_t>(parallel.partition_units.size());
  if (parallel.chunks == 0 && parallel.partition == PartitionMethod::units && listed % parallel.pipeline == 0)
    parallel.chunks = listed / parallel.pipeline;
}

}  // namespace

int64_t default_decay_steps(const Job& job) {
  const LearningRateSection& rate = job.learning_rate;
  return rate.decay_style == DecayStyle::wsd ? job.run.steps / 10
                                             : std::max(job.run.steps, rate.warmup_steps);
}

void resolve(Job& job, const GivenKeys& given, const Launch& launch) {
  resolve_model(job.model, given);
  if (job.parallel.device == DeviceChoice::automatic) {
    job.parallel.device = launch.cuda ? DeviceChoice::cuda : DeviceChoice::cpu;
  }
  if (job.parallel.data == 0 && launch.ranks > 0)
    job.parallel.data = std::max<int64_t>(1, launch.ranks / job.parallel.pipeline);
  resolve_schedule(job.parallel, given);
  if (!given.given("precision.compute")) {
    job.precision.compute = job.parallel.device == DeviceChoice::cuda ? Precision::bf16 : Precision::fp32;
  }
  if (!given.given("precision.p2p")) {
    job.precision.p2p = job.precision.compute == Precision::fp8 ? Precision::bf16 : job.precision.compute;
  }
  LearningRateSection& rate = job.learning_rate;
  if (!given.given("learning_rate.min")) rate.min = 0.1 * rate.max;
  if (!given.given("learning_rate.decay_steps")) {
    rate.decay_steps = default_decay_steps(job);
  }
}

}  // namespace penstock
