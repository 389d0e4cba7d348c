#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/device/device.h"
#include "kernels/math/math.h"
#include "model/rank_model.h"

/// Whole models for tests: one rank, or several ranks of one process whose boundary tensors are copied by
/// hand.
namespace penstock::testing {

enum class Backend { cpu, reference };

/// Small models that use every option of their family.
ModelSection small_gpt2();
ModelSection small_llama();

/// A micro-batch in host memory.
struct HostBatch {
  std::vector<int32_t> tokens, targets, positions, starts;
  std::vector<int64_t> samples;
  model::SideBand band(bool document_mask);
};

/// Random tokens, each row's target the next one; positions 0…T−1, starts 0; samples from first_sample on.
HostBatch random_batch(const ModelSection& model, int64_t sequences, int64_t first_sample);

struct PipelineOptions {
  ModelSection model;
  DType compute = DType::fp32;
  Backend backend = Backend::cpu;
  int64_t micro_batch = 2;
  int64_t micro_batches = 1;
  RecomputeMode recompute = RecomputeMode::none;
  /// Per rank its stages; empty: one rank with one stage. `recompute` fills theirs where they say nothing.
  std::vector<std::vector<model::StageConfig>> ranks;
  int threads = 1;
  StreamMode mode = StreamMode::queued;
  bool document_mask = false;
  int boundary_buffers = 1;
  uint64_t seed = 1;
  OptimizerSection optimizer;
  double learning_rate = 1e-2;
};

/// How the actions of a step are ordered.
enum class Order {
  one_by_one,     ///< F I W of a micro-batch, then the next
  weights_last,   ///< F I of every micro-batch, then every W
  forwards_first  ///< every F, then I and W of every micro-batch
};

using Values = std::map<std::string, std::vector<float>>;

class Pipeline {
 public:
  explicit Pipeline(PipelineOptions options);
  ~Pipeline();

  const PipelineOptions& options() const { return options_; }
  size_t ranks() const { return ranks_.size(); }
  model::RankModel& model(size_t rank = 0) { return *ranks_[rank]->model; }
  Stream& stream(size_t rank = 0) { return *ranks_[rank]->stream; }
  Device& device(size_t rank = 0) { return *ranks_[rank]->device; }

  /// Puts these values (fewer rows than padded are the first rows) into master and compute copies.
  void load(const Values& values);
  /// One optimizer step; the mean loss.
  double step(std::vector<HostBatch>& batches, Order order = Order::one_by_one);
  /// Without the update: gradients() afterwards.
  double backward(std::vector<HostBatch>& batches, Order order = Order::one_by_one);
  /// Mean loss of evaluation forwards.
  double evaluate(std::vector<HostBatch>& batches);
  /// logits (rows, vocab) of the micro-batch evaluated last.
  std::vector<float> logits();
  const model::StepResult& result() const { return result_; }

  /// By global name. A tied weight on two ranks must be the same on both: else "<name>@head" stands here too.
  Values parameters();
  Values gradients();

 private:
  struct Rank {
    std::unique_ptr<Device> device;
    math::Math math;
    std::unique_ptr<Stream> stream;
    std::unique_ptr<model::RankModel> model;
  };
  struct Place {
    size_t rank = 0;
    size_t stage = 0;
  };
  Values collect(Tensor model::Parameter::*member);
  model::Stage& stage(const Place& place) { return ranks_[place.rank]->model->stage(place.stage); }
  Stream& stream_of(const Place& place) { return *ranks_[place.rank]->stream; }
  void forward(int64_t micro_batch, HostBatch& batch, model::Pass pass);
  void backward_input(int64_t micro_batch);
  void backward_weight(int64_t micro_batch);
  model::SlotIds slots(const Place& place, int64_t micro_batch);
  void exchange_tied();

  PipelineOptions options_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<Place> order_;  // along the model
  uint64_t steps_ = 0;
  model::StepResult result_;
};

/// ‖a − b‖ / ‖b‖.
double relative_error(const std::vector<float>& a, const std::vector<double>& b);
/// Fails with the names of what differs in any bit.
void expect_same(const Values& a, const Values& b, const std::string& what);

}  // namespace penstock::testing
