#include "tests/parallel/runtime/ranks.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <random>

#include <gtest/gtest.h>

#include "tests/parallel/runtime/local_engine.h"
#include "tests/parallel/runtime/rank_backend.h"

namespace penstock::testing {

namespace {

constexpr int64_t sequences = 2;
constexpr float nobody = std::numeric_limits<float>::quiet_NaN();

DeviceOptions device_of(const Job& job, int rank) {
  DeviceOptions options;
  options.rank = rank;
  options.threads = job.threads;
  options.mode = job.mode;
  options.shuffle_seed = 7;
  options.strict_events = true;
  return options;
}

}  // namespace

model::StepInputs inputs_of(const Job& job, int step) {
  const model::RankConfig& common = job.request.common;
  return {
      static_cast<uint64_t>(step), job.learning_rate,
      common.micro_batches * common.micro_batch * common.model.sequence_length * job.request.parallel.data,
      job.loss_scale};
}

void collect(model::RankModel& rank, Values& all) {
  const model::ParameterStore& store = rank.parameters();
  const bool gathered = store.shard().count == 1 || store.gathered();
  for (const model::Parameter& parameter : store.parameters()) {
    const auto elements = static_cast<size_t>(parameter.spec.slice.elements());
    std::vector<float>& known =
        all.emplace(parameter.spec.name, std::vector<float>(elements, nobody)).first->second;
    const bool whole = parameter.whole_master && gathered;
    const model::Slice held = whole ? parameter.spec.slice : parameter.owned;
    const auto* values = parameter.master.as<float>() + (parameter.whole_master ? held.begin : 0);
    bool same = true;
    for (int64_t i = 0; i < held.elements(); ++i) {
      float& at = known[static_cast<size_t>(held.begin + i)];
      if (std::isnan(at)) at = values[i];
      same = same && std::memcmp(&at, &values[i], sizeof(float)) == 0;
    }
    EXPECT_TRUE(same) << parameter.spec.name << " is not the same on all ranks that hold it";
  }
}

ModelSection tiny_gpt2() {
  ModelSection model;
  model.family = Family::gpt2;
  model.layers = 4;
  model.hidden_size = 16;
  model.heads = 2;
  model.kv_heads = 2;
  model.head_dim = 8;
  model.ffn_hidden_size = 40;
  model.sequence_length = 5;
  model.vocab_size = 37;
  model.tie_embeddings = true;
  model.qkv_bias = true;
  model.dropout = 0.2;
  return model;
}

ModelSection tiny_llama() {
  ModelSection model;
  model.family = Family::llama;
  model.layers = 4;
  model.hidden_size = 16;
  model.heads = 4;
  model.kv_heads = 2;
  model.head_dim = 4;
  model.ffn_hidden_size = 24;
  model.sequence_length = 5;
  model.vocab_size = 41;
  model.qk_norm = true;
  return model;
}

ModelSection tiny_model(bool llama, bool tied) {
  ModelSection model = llama ? tiny_llama() : tiny_gpt2();
  model.tie_embeddings = tied;
  return model;
}

ModelSection model_of_blocks(bool llama, bool tied) {
  ModelSection model = tiny_model(llama, tied);
  model.layers = 2;
  model.hidden_size = 72;
  model.heads = 4;
  model.kv_heads = llama ? 2 : 4;
  model.head_dim = 18;
  model.ffn_hidden_size = 150;
  model.vocab_size = 700;
  return model;
}

model::SideBand HostBatch::band(bool first, bool last) {
  const auto view = [](auto& values, DType dtype) {
    return Tensor(values.data(), dtype, Shape{static_cast<int64_t>(values.size())});
  };
  model::SideBand band;
  if (first) band.tokens = view(tokens, DType::i32);
  if (last) band.targets = view(targets, DType::i32);
  band.positions = view(positions, DType::i32);
  band.samples = view(samples, DType::i64);
  return band;
}

HostBatch random_batch(const ModelSection& model, int64_t count, int64_t first_sample) {
  HostBatch batch;
  for (int64_t sequence = 0; sequence < count; ++sequence) {
    std::mt19937_64 random(static_cast<uint64_t>(first_sample + sequence) + 17);
    const auto draw = [&] {
      return static_cast<int32_t>(random() % static_cast<uint64_t>(model.vocab_size));
    };
    int32_t token = draw();
    for (int64_t t = 0; t < model.sequence_length; ++t) {
      batch.tokens.push_back(token);
      token = draw();
      batch.targets.push_back(token);
      batch.positions.push_back(static_cast<int32_t>(t));
    }
    batch.samples.push_back(first_sample + sequence);
  }
  return batch;
}

std::vector<model::SideBand> bands_of(std::vector<HostBatch>& batches, bool first, bool last) {
  std::vector<model::SideBand> bands(batches.size());
  for (size_t m = 0; m < batches.size(); ++m) bands[m] = batches[m].band(first, last);
  return bands;
}

Job make_job(const ModelSection& model, int pipeline, const std::string& schedule, int chunks,
             int micro_batches, int replicas) {
  Job job;
  job.request.parallel.pipeline = pipeline;
  job.request.parallel.data = replicas;
  job.request.parallel.schedule = schedule;
  job.request.parallel.chunks = chunks;
  job.request.parallel.partition = PartitionMethod::layers;
  job.request.parallel.bucket_mib = 0.002;
  job.request.common.model = model;
  job.request.common.micro_batch = sequences;
  job.request.common.micro_batches = micro_batches;
  return job;
}

const std::vector<OneCopySchedule>& one_copy_schedules() {
  static const std::vector<OneCopySchedule> all{
      {"gpipe"}, {"1f1b"},   {"1f1b", 1, 2}, {"interleaved", 2}, {"bfs", 2},       {"zb-h1"},
      {"zb-h2"}, {"zbv", 2}, {"v-half", 2},  {"v-min", 2},       {"dualpipev", 2}, {"hanayo", 2}};
  return all;
}

const std::vector<std::string>& two_copy_schedules() {
  static const std::vector<std::string> all{"dualpipe", "chimera"};
  return all;
}

std::vector<Job> same_results(const Job& job) {
  std::vector<Job> all;
  Job other = job;
  other.request.recompute.mode = RecomputeMode::full;
  other.request.parallel.partition = PartitionMethod::units;
  other.request.parallel.partition_units = {1, 4, 2, 3};
  all.push_back(other);
  other.request.recompute.stages = {RecomputeMode::none, RecomputeMode::selective, RecomputeMode::full,
                                    RecomputeMode::selective};
  other.request.parallel.order = RankOrder::data_first;
  other.request.parallel.bucket_mib = 64;
  other.mode = StreamMode::shuffled;
  all.push_back(other);
  other.request.recompute.stages.clear();
  other.request.recompute.mode = RecomputeMode::selective;
  other.request.parallel.partition_units = {5, 1, 1, 3};
  other.transport.buffered = true;
  other.threads = 2;
  all.push_back(other);
  return all;
}

Job replicas_for_copies(const Job& job) {
  const auto& common = job.request.common;
  Job reference = make_job(common.model, 1, "1f1b", 1, static_cast<int>(common.micro_batches / 2),
                           static_cast<int>(2 * job.request.parallel.data));
  reference.request.common.compute = common.compute;
  reference.loss_scale = job.loss_scale;
  reference.request.gradient_wire = job.request.gradient_wire;
  reference.steps = job.steps;
  return reference;
}

Job make_job(const ModelSection& model, int pipeline, const OneCopySchedule& schedule, int micro_batches,
             int replicas) {
  Job job = make_job(model, pipeline, schedule.name, schedule.chunks, micro_batches, replicas);
  job.request.parallel.warmup_slack = schedule.slack;
  return job;
}

std::vector<float> gradients_of(model::RankModel& rank) {
  std::vector<float> all;
  for (const auto& unit : rank.parameters().unit_gradients()) {
    const auto* begin = unit.values.as<float>();
    all.insert(all.end(), begin, begin + unit.values.elements());
  }
  return all;
}

void run_rank(const Job& job, transport::World& world, const Body& body) {
  RankBackend backend = make_rank_backend(device_of(job, world.rank()), &world);
  runtime::PipelineEngine engine(*backend.device, backend.math, world, runtime::plan_pipeline(job.request));
  engine.rank().initialise(engine.stream());
  body(engine, world);
}

void run_ranks(const Job& job, const Body& body) {
  const auto ranks = static_cast<int>(job.request.parallel.pipeline * job.request.parallel.data);
  transport::run_inproc(ranks, job.transport, [&](transport::World& hosts) {
    const std::unique_ptr<transport::World> over = job.over ? job.over(hosts) : nullptr;
    run_rank(job, over ? *over : hosts, body);
  });
}

std::vector<HostBatch> batches_of(const Job& job, int step, int replica) {
  const int64_t count = job.request.common.micro_batches;
  std::vector<HostBatch> batches;
  for (int64_t m = 0; m < count; ++m) {
    const int64_t index = (step * job.request.parallel.data + replica) * count + m;
    batches.push_back(random_batch(job.request.common.model, sequences, index * sequences));
  }
  return batches;
}

void train_step(const Job& job, runtime::PipelineEngine& engine, int step, Result& mine) {
  std::vector<HostBatch> batches = batches_of(job, step, engine.place().replica);
  const auto bands = bands_of(batches, engine.holds_first(), engine.holds_last());
  const model::StepInputs inputs = inputs_of(job, step);
  engine.start_step(inputs, bands);
  const model::StepResult result = engine.finish_step();
  EXPECT_TRUE(result.applied);
  mine.losses.push_back(result.loss_sum / static_cast<double>(inputs.target_tokens));
  mine.norms.push_back(result.gradient_norm);
}

Result train_rank(const Job& job, runtime::PipelineEngine& engine) {
  Result mine;
  for (int step = 0; step < job.steps; ++step) train_step(job, engine, step, mine);
  EXPECT_EQ(engine.rank().memory().unclaimed(), std::vector<std::string>{});
  engine.gather_parameters();
  engine.stream().synchronize();
  collect(engine.rank(), mine.parameters);
  return mine;
}

Result train(const Job& job, const RankTraining& rank) {
  std::mutex mutex;
  Result result;
  run_ranks(job, [&](runtime::PipelineEngine& engine, transport::World& world) {
    const Result mine = rank(job, engine);
    const std::lock_guard lock(mutex);
    if (result.losses.empty()) {
      result.losses = mine.losses;
      result.norms = mine.norms;
    }
    EXPECT_EQ(result.losses, mine.losses) << "rank " << world.rank();
    EXPECT_EQ(result.norms, mine.norms) << "rank " << world.rank();
    collect(engine.rank(), result.parameters);
  });
  return result;
}

Result train_locally(const Job& job) {
  RankBackend backend = make_rank_backend(device_of(job, 0), nullptr);
  model::RankConfig config = job.request.common;
  config.stages = {model::whole_model(config.model, RecomputeMode::none)};
  runtime::LocalEngine engine(*backend.device, backend.math, config);
  engine.rank().initialise(engine.stream());
  Result result;
  for (int step = 0; step < job.steps; ++step) {
    std::vector<HostBatch> batches = batches_of(job, step, 0);
    const auto bands = bands_of(batches);
    const model::StepInputs inputs = inputs_of(job, step);
    engine.start_step(inputs, bands);
    const model::StepResult step_result = engine.finish_step();
    result.losses.push_back(step_result.loss_sum / static_cast<double>(inputs.target_tokens));
    result.norms.push_back(step_result.gradient_norm);
  }
  collect(engine.rank(), result.parameters);
  return result;
}

void expect_same(const Result& a, const Result& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.norms, b.norms);
  ASSERT_EQ(a.parameters.size(), b.parameters.size());
  for (const auto& [name, values] : a.parameters) {
    const auto other = b.parameters.find(name);
    ASSERT_NE(other, b.parameters.end()) << name;
    ASSERT_EQ(values.size(), other->second.size()) << name;
    EXPECT_EQ(std::memcmp(values.data(), other->second.data(), values.size() * sizeof(float)), 0)
        << name << " differs";
  }
}

}  // namespace penstock::testing
