#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/transport/inproc/inproc_world.h"
#include "parallel/runtime/pipeline_engine.h"

/// Pipelines of a few ranks in one process, for tests.
namespace penstock::testing {

/// Tiny models that use every option of their family.
ModelSection tiny_gpt2();
ModelSection tiny_llama();
ModelSection tiny_model(bool llama, bool tied);
/// So large that a sharded optimizer's parameters are cut between members: weights of 2 to 13 norm blocks,
/// the last ones not whole.
ModelSection model_of_blocks(bool llama, bool tied);

/// A micro-batch in host memory.
struct HostBatch {
  std::vector<int32_t> tokens, targets, positions;
  std::vector<int64_t> samples;
  /// `first`, `last`: whether tokens and targets are there.
  model::SideBand band(bool first = true, bool last = true);
};
/// Their side bands, which view them.
std::vector<model::SideBand> bands_of(std::vector<HostBatch>& batches, bool first = true, bool last = true);
HostBatch random_batch(const ModelSection& model, int64_t sequences, int64_t first_sample);

/// What runs: `request.common.micro_batches` a step and replica.
struct Job {
  runtime::PipelineRequest request;
  int steps = 3;
  double learning_rate = 1e-2;
  double loss_scale = 1;
  StreamMode mode = StreamMode::queued;
  transport::InprocOptions transport;
  int threads = 1;
  /// Makes a rank's world over that of the threads; none: that one.
  std::function<std::unique_ptr<transport::World>(transport::World& hosts)> over;
};
Job make_job(const ModelSection& model, int pipeline, const std::string& schedule, int chunks = 1,
             int micro_batches = 4, int replicas = 1);

/// A schedule that ranks run, with chunks and slack: every kind there is.
struct OneCopySchedule {
  std::string name;
  int chunks = 1;
  int slack = 0;
};
const std::vector<OneCopySchedule>& one_copy_schedules();
/// Those that run two copies of the weights.
const std::vector<std::string>& two_copy_schedules();
/// What a job with two copies must be equal to, bit by bit: one rank with a replica for every copy.
Job replicas_for_copies(const Job& job);
Job make_job(const ModelSection& model, int pipeline, const OneCopySchedule& schedule, int micro_batches,
             int replicas = 1);

/// The job of four ranks, with all that may differ without a bit of its results changing (but its schedule):
/// cuts, recomputation, order of ranks, buckets, streams, transport, threads.
std::vector<Job> same_results(const Job& job);

using Values = std::map<std::string, std::vector<float>>;

struct Result {
  std::vector<double> losses;  ///< mean, a step each
  std::vector<double> norms;
  Values parameters;
};

using Body = std::function<void(runtime::PipelineEngine&, transport::World&)>;
/// One rank of `job`: calls `body` with its engine, initialised.
void run_rank(const Job& job, transport::World& world, const Body& body);
/// All ranks of `job`, in this process; each calls `body` with its engine, initialised. What a rank throws is
/// rethrown.
void run_ranks(const Job& job, const Body& body);
/// All gradients of a rank (those that the optimizer reads), unit after unit.
std::vector<float> gradients_of(model::RankModel& rank);
/// What step `step` is told.
model::StepInputs inputs_of(const Job& job, int step);
/// The micro-batches of a step of a replica.
std::vector<HostBatch> batches_of(const Job& job, int step, int replica);
/// Trains step `step` on this rank: its loss and norm are added.
void train_step(const Job& job, runtime::PipelineEngine& engine, int step, Result& mine);
/// Adds a rank's parameters, NaN where it has none of its elements; fails the test where others that hold
/// them have other bits.
void collect(model::RankModel& rank, Values& all);
/// Trains `job.steps` steps on this rank; its parameters.
Result train_rank(const Job& job, runtime::PipelineEngine& engine);
/// Trains on all ranks, in this process, each by `rank` (train_rank). Fails the test where two ranks disagree
/// about a loss, a norm, or a parameter that both hold.
using RankTraining = std::function<Result(const Job&, runtime::PipelineEngine&)>;
Result train(const Job& job, const RankTraining& rank = train_rank);
/// The same on one rank, micro-batch after micro-batch, without any schedule. One replica.
Result train_locally(const Job& job);
/// Fails with what differs in any bit.
void expect_same(const Result& a, const Result& b);

}  // namespace penstock::testing
