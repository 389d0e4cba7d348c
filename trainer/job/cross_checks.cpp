#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "data/mixture.h"
#include "parallel/schedule/catalogue.h"
#include "trainer/job/job_keys.h"
#include "trainer/job/resolve.h"

namespace penstock {
namespace {

class CrossChecks {
 public:
  CrossChecks(const GivenKeys& given, Problems& problems) : given_(given), problems_(problems) {}

  // Whether all of these keys are usable.
  bool know(std::initializer_list<const char*> paths) const {
    for (const char* path : paths) {
      if (given_.spoilt(path)) return false;
    }
    return true;
  }
  // The problem is shown at the first key.
  void expect(bool holds, const char* path, const std::string& message) {
    if (!holds) problems_.add(given_.place_of(path), fmt::format("{}: {}", path, message));
  }
  bool has_section(const char* name) const { return given_.has_section(name); }
  bool given(const char* path) const { return given_.given(path); }

 private:
  const GivenKeys& given_;
  Problems& problems_;
};

void check_heads(const ModelSection& model, CrossChecks& checks) {
  if (checks.know({"model.hidden_size", "model.heads", "model.head_dim"}) &&
      !checks.given("model.head_dim")) {
    const bool divides = model.hidden_size % model.heads == 0;
    checks.expect(divides, "model.hidden_size",
                  fmt::format("{} is no multiple of heads = {}; change one, or give head_dim",
                              model.hidden_size, model.heads));
    checks.expect(!divides || model.head_dim % 2 == 0, "model.heads",
                  fmt::format("hidden_size / heads = {} / {} = {}, but a head's width must be even",
                              model.hidden_size, model.heads, model.head_dim));
  }
  if (checks.know({"model.kv_heads", "model.heads"})) {
    checks.expect(model.heads % model.kv_heads == 0, "model.kv_heads",
                  fmt::format("{} does not divide heads = {}", model.kv_heads, model.heads));
  }
}

void check_family(const ModelSection& model, CrossChecks& checks) {
  if (!checks.know({"model.family"})) return;
  if (model.family == Family::llama) {
    checks.expect(
        checks.given("model.ffn_hidden_size"), "model.ffn_hidden_size",
        "required, but missing: family = \"llama\" has no default for it (usual: about 8/3 · hidden_size)");
    return;
  }
  checks.expect(!model.rope_scaling, "model.rope_scaling",
                "family = \"gpt2\" has learned positions and no rotary embedding; leave it out");
  checks.expect(!model.qk_norm, "model.qk_norm", "only family = \"llama\" has it");
  checks.expect(model.kv_heads == model.heads || !checks.know({"model.kv_heads", "model.heads"}),
                "model.kv_heads", "family = \"gpt2\" has as many key/value heads as heads; leave it out");
}

void check_rope(const ModelSection& model, CrossChecks& checks) {
  if (!model.rope_scaling || !checks.know({"model.rope_scaling"})) return;
  checks.expect(model.rope_scaling->type != RopeScalingType::llama3 ||
                    model.rope_scaling->low_freq_factor < model.rope_scaling->high_freq_factor,
                "model.rope_scaling",
                fmt::format("low_freq_factor = {} must be below high_freq_factor = {}",
                            model.rope_scaling->low_freq_factor, model.rope_scaling->high_freq_factor));
}

void check_batch(const Job& job, int64_t shared_ranks, CrossChecks& checks) {
  if (!checks.know({"batch.global", "batch.micro", "parallel.data", "parallel.pipeline"})) return;
  // Both factors are below 2^33 and 2^21: the product fits.
  const int64_t replicas = std::max<int64_t>(1, job.parallel.data);
  const int64_t together = job.batch.micro * replicas;
  std::string text = fmt::format("{} sequences are no multiple of micro · data = {} · {} = {}",
                                 job.batch.global, job.batch.micro, replicas, together);
  if (shared_ranks > 1) {
    text += fmt::format(
        "; parallel.data = \"auto\" makes {} replicas of all {} ranks (those started, or the cluster's), {} "
        "each: set parallel.data, or take a batch of so many",
        job.parallel.data, shared_ranks, job.parallel.pipeline);
  }
  checks.expect(job.batch.global % together == 0, "batch.global", text);
}

void check_learning_rate(const Job& job, CrossChecks& checks) {
  const LearningRateSection& rate = job.learning_rate;
  if (checks.know({"learning_rate.min", "learning_rate.max"})) {
    checks.expect(rate.min <= rate.max, "learning_rate.min",
                  fmt::format("{} is above max = {}", rate.min, rate.max));
  }
  if (!checks.know({"learning_rate.warmup_steps", "learning_rate.decay_steps", "learning_rate.decay_style",
                    "run.steps"})) {
    return;
  }
  if (rate.decay_style == DecayStyle::wsd) {
    checks.expect(
        rate.decay_steps <= job.run.steps, "learning_rate.decay_steps",
        fmt::format("{} steps of decay do not fit into run.steps = {}", rate.decay_steps, job.run.steps));
    checks.expect(rate.warmup_steps <= job.run.steps - rate.decay_steps || rate.decay_steps > job.run.steps,
                  "learning_rate.warmup_steps",
                  fmt::format("{} steps of warm-up and {} of decay do not fit into run.steps = {}",
                              rate.warmup_steps, rate.decay_steps, job.run.steps));
  } else if (rate.decay_style != DecayStyle::constant && checks.given("learning_rate.decay_steps")) {
    checks.expect(rate.warmup_steps <= rate.decay_steps, "learning_rate.warmup_steps",
                  fmt::format("{} is beyond decay_steps = {}, which counts from the first step",
                              rate.warmup_steps, rate.decay_steps));
  }
}

// Only then do scales change no bit.
void check_loss_scaling(const LossScalingSection& scaling, CrossChecks& checks) {
  const auto check = [&](const char* path, double value) {
    int exponent = 0;
    const bool is_power = std::frexp(value, &exponent) == 0.5;
    checks.expect(is_power || !checks.know({path}), path, fmt::format("{} is no power of two", value));
  };
  check("loss_scaling.initial", scaling.initial);
  check("loss_scaling.growth_factor", scaling.growth_factor);
  check("loss_scaling.backoff_factor", scaling.backoff_factor);
  check("loss_scaling.minimum", scaling.minimum);
  check("loss_scaling.maximum", scaling.maximum);
  if (!checks.know({"loss_scaling.initial", "loss_scaling.minimum", "loss_scaling.maximum"})) return;
  checks.expect(scaling.minimum <= scaling.initial, "loss_scaling.initial",
                fmt::format("{} is below minimum = {}", scaling.initial, scaling.minimum));
  checks.expect(scaling.initial <= scaling.maximum, "loss_scaling.initial",
                fmt::format("{} is above maximum = {}", scaling.initial, scaling.maximum));
}

void check_data(const Job& job, CrossChecks& checks) {
  if (checks.know({"evaluation.every_steps", "data.validation"})) {
    checks.expect(job.evaluation.every_steps == 0 || !job.data.validation.empty(), "evaluation.every_steps",
                  "evaluation needs data.validation, which is missing");
    checks.expect(job.evaluation.every_steps == 0 || job.evaluation.batches > 0, "evaluation.batches",
                  "an evaluation needs at least 1 batch; every_steps = 0 turns it off");
  }
  if (checks.know({"model.vocab_size", "data.tokenizer"}) && checks.has_section("model")) {
    checks.expect(job.model.vocab_size > 0 || !job.data.tokenizer.empty(), "model.vocab_size",
                  "required, but missing: it is the tokenizer's only where data.tokenizer names one");
  }
  if (checks.know({"data.train"}) && job.data.train.size() > 1) {
    std::vector<double> weights;
    for (const DataSource& source : job.data.train) weights.push_back(source.weight);
    std::string fault;
    try {
      const data::Mixture mixture(weights);
    } catch (const std::invalid_argument& error) {
      fault = error.what();
    }
    checks.expect(fault.empty(), "data.train", fault);
  }
}

void check_parallel(const Job& job, CrossChecks& checks) {
  const int64_t stages = job.parallel.pipeline * job.parallel.chunks;
  if (!checks.know({"parallel.pipeline", "parallel.chunks", "parallel.schedule"})) return;
  if (stages == 0) {
    checks.expect(job.recompute.stages.empty(), "recompute.stages",
                  "a mode per stage needs parallel.chunks, which is left to the planner");
    checks.expect(job.parallel.partition != PartitionMethod::units, "parallel.partition",
                  fmt::format("{} counts are no multiple of pipeline = {} stages",
                              job.parallel.partition_units.size(), job.parallel.pipeline));
    return;
  }
  if (checks.know({"recompute.stages"}) && !job.recompute.stages.empty()) {
    checks.expect(
        static_cast<int64_t>(job.recompute.stages.size()) == stages, "recompute.stages",
        fmt::format("{} modes for pipeline · chunks = {} stages", job.recompute.stages.size(), stages));
  }
  if (checks.know({"parallel.partition"}) && job.parallel.partition == PartitionMethod::units) {
    checks.expect(static_cast<int64_t>(job.parallel.partition_units.size()) == stages, "parallel.partition",
                  fmt::format("{} counts for pipeline · chunks = {} stages",
                              job.parallel.partition_units.size(), stages));
    int64_t units = 0;
    for (const int64_t count : job.parallel.partition_units) units += count;
    checks.expect(
        units == 2 * job.model.layers + 2 || !checks.know({"model.layers"}), "parallel.partition",
        fmt::format("the counts add up to {}, but the model has {} units (embedding, an attention and an MLP "
                    "a layer, head)",
                    units, 2 * job.model.layers + 2));
  }
}

void check_comm(const Job& job, CrossChecks& checks) {
  const CommSection& comm = job.comm;
  if (!checks.know({"comm.transport"})) return;
  const bool nccl = comm.transport == TransportChoice::nccl;
  // Where it is left open, another machine may have GPUs.
  const bool on_processor = checks.given("parallel.device") && job.parallel.device == DeviceChoice::cpu;
  const bool may_be_nccl = nccl || (comm.transport == TransportChoice::automatic && !on_processor);
  checks.expect(!nccl || !on_processor, "comm.transport",
                "\"nccl\" carries messages between GPUs, but parallel.device = \"cpu\"; leave it \"auto\"");
  checks.expect(may_be_nccl || comm.bootstrap == BootstrapChoice::automatic, "comm.bootstrap",
                "it is how NCCL's ranks find each other, and this job does not use NCCL; leave it out");
  checks.expect(may_be_nccl || comm.nccl.empty(), "comm.nccl", "this job does not use NCCL; leave it out");
  checks.expect(
      !nccl || !job.parallel.share_devices || !checks.know({"parallel.share_devices"}),
      "parallel.share_devices",
      "NCCL takes one rank a GPU; leave it out, or run all ranks in one process with comm.transport = "
      "\"inproc\"");
  if (!checks.know({"comm.nccl"})) return;
  for (const auto& [name, value] : comm.nccl) {
    const bool settable = name.find('=') == std::string::npos && value.find('\0') == std::string::npos;
    checks.expect(name.rfind("NCCL_", 0) == 0 && name.size() > 5 && settable, "comm.nccl",
                  fmt::format("`{}` is no variable of NCCL's; their names begin with NCCL_", name));
  }
}

// Two copies of the weights are summed once a step, and stay where they are.
void check_copies(const Job& job, CrossChecks& checks) {
  if (!checks.know({"parallel.schedule"})) return;
  const std::string& name = job.parallel.schedule;
  if (schedule::copies_of(name) == 1) return;
  if (checks.know({"parallel.reduce_every"})) {
    checks.expect(
        job.parallel.reduce_every == 0, "parallel.reduce_every",
        fmt::format("schedule \"{}\" sums its two copies of the weights once a step: set it to 0", name));
  }
  if (checks.know({"bubble_budget.actions"})) {
    checks.expect(
        job.bubble_budget.actions.empty(), "bubble_budget.actions",
        fmt::format("schedule \"{}\" runs two copies of the weights, which are not rearranged: leave the "
                    "list empty",
                    name));
  }
}

// Steps that overlap have no place for partial sums, and are not arranged otherwise while they run.
void check_versions(const Job& job, CrossChecks& checks) {
  if (!checks.know({"parallel.schedule"})) return;
  const std::string& name = job.parallel.schedule;
  if (schedule::versions_of(name) == 1) return;
  if (checks.know({"batch.global", "batch.micro", "parallel.data", "parallel.pipeline"})) {
    const int64_t count = job.batch.global / (job.batch.micro * std::max<int64_t>(1, job.parallel.data));
    checks.expect(
        count >= job.parallel.pipeline, "parallel.schedule",
        fmt::format("\"{}\" needs at least pipeline = {} micro-batches a step and replica; global / (micro · "
                    "data) = {}",
                    name, job.parallel.pipeline, count));
  }
  // What decides on a step before its update, or between two.
  const auto expect_not = [&](const char* path, bool wanted, const char* why) {
    if (!checks.know({path})) return;
    checks.expect(!wanted, path,
                  fmt::format("schedule \"{}\" begins a step before {}: set it otherwise", name, why));
  };
  const char* scale = "the loss scale that the one before leaves is known";
  const bool narrow = job.precision.compute == Precision::fp16;  // wires too, unless said otherwise
  expect_not("precision.compute", narrow, scale);
  expect_not("precision.p2p", !narrow && job.precision.p2p == Precision::fp16, scale);
  expect_not("precision.gradient_reduce", job.precision.gradient_reduce == Precision::fp16, scale);
  expect_not("numerics.on_nonfinite", job.numerics.on_nonfinite == NumericsPolicy::rollback,
             "the one before is judged, which cannot be taken back alone");
  expect_not(
      "numerics.on_spike",
      job.numerics.on_spike == NumericsPolicy::skip || job.numerics.on_spike == NumericsPolicy::rollback,
      "the loss of the one before is judged");
  expect_not("numerics.replica_check_every_steps", job.numerics.replica_check_every_steps > 0,
             "replicas could be compared");
  expect_not("numerics.recompute_check_every_steps", job.numerics.recompute_check_every_steps > 0,
             "the one before could be computed again");
  if (checks.know({"parallel.reduce_every"})) {
    checks.expect(
        job.parallel.reduce_every == 0, "parallel.reduce_every",
        fmt::format("schedule \"{}\" has two sets of gradients for its two steps under way, and none for "
                    "partial sums: set it to 0",
                    name));
  }
  if (checks.know({"bubble_budget.actions"})) {
    checks.expect(
        job.bubble_budget.actions.empty(), "bubble_budget.actions",
        fmt::format("schedule \"{}\" keeps two versions of the weights, which are not rearranged: leave the "
                    "list empty",
                    name));
  }
}

void check_conservative(const Job& job, CrossChecks& checks) {
  if (!checks.know({"bubble_budget.conservative"})) return;
  Job described;
  const std::vector<SectionKeys> sections = keys_of(described);
  const SectionKeys* parallel = find_section(sections, "parallel");
  for (const auto& [name, value] : job.bubble_budget.conservative) {
    checks.expect(find_key(*parallel, name) != nullptr, "bubble_budget.conservative",
                  fmt::format("`{}` is no key of [parallel]", name));
  }
}

void check_trace(const Job& job, CrossChecks& checks) {
  if (!checks.know({"trace.steps", "run.steps"})) return;
  for (const int64_t step : job.trace.steps) {
    if (step <= job.run.steps) continue;
    checks.expect(false, "trace.steps",
                  fmt::format("there is no step {} to trace: run.steps = {}", step, job.run.steps));
  }
}

}  // namespace

void check_across(const Job& job, const GivenKeys& given, int64_t shared_ranks, Problems& problems) {
  CrossChecks checks(given, problems);
  check_heads(job.model, checks);
  check_family(job.model, checks);
  check_rope(job.model, checks);
  check_batch(job, shared_ranks, checks);
  check_learning_rate(job, checks);
  check_loss_scaling(job.loss_scaling, checks);
  check_data(job, checks);
  check_parallel(job, checks);
  check_comm(job, checks);
  check_copies(job, checks);
  check_versions(job, checks);
  check_conservative(job, checks);
  check_trace(job, checks);
}

}  // namespace penstock
