#include "tests/model/pipeline.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include <gtest/gtest.h>

#include "kernels/cpu/device.h"
#include "kernels/cpu/make_math.h"
#include "kernels/reference/make_math.h"

namespace penstock::testing {

using model::SideBand;
using model::StageConfig;

ModelSection small_gpt2() {
  ModelSection model;
  model.family = Family::gpt2;
  model.layers = 2;
  model.hidden_size = 24;
  model.heads = 3;
  model.kv_heads = 3;
  model.head_dim = 8;
  model.ffn_hidden_size = 96;
  model.sequence_length = 13;
  model.vocab_size = 67;
  model.tie_embeddings = true;
  model.qkv_bias = true;
  return model;
}

ModelSection small_llama() {
  ModelSection model;
  model.family = Family::llama;
  model.layers = 2;
  model.hidden_size = 32;
  model.heads = 8;
  model.kv_heads = 2;
  model.head_dim = 6;
  model.ffn_hidden_size = 40;
  model.sequence_length = 11;
  model.vocab_size = 71;
  model.qkv_bias = true;
  model.qk_norm = true;
  return model;
}

SideBand HostBatch::band(bool document_mask) {
  const auto view = [](auto& values, DType dtype) {
    return Tensor(values.data(), dtype, Shape{static_cast<int64_t>(values.size())});
  };
  SideBand band;
  band.tokens = view(tokens, DType::i32);
  band.targets = view(targets, DType::i32);
  band.positions = view(positions, DType::i32);
  if (document_mask) band.starts = view(starts, DType::i32);
  band.samples = view(samples, DType::i64);
  return band;
}

HostBatch random_batch(const ModelSection& model, int64_t sequences, int64_t first_sample) {
  HostBatch batch;
  for (int64_t sequence = 0; sequence < sequences; ++sequence) {
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
      batch.starts.push_back(0);
    }
    batch.samples.push_back(first_sample + sequence);
  }
  return batch;
}

Pipeline::Pipeline(PipelineOptions options) : options_(std::move(options)) {
  if (options_.ranks.empty()) {
    StageConfig whole = model::whole_model(options_.model, options_.recompute);
    whole.forward_slots = whole.kept_slots = whole.weight_slots = static_cast<int>(options_.micro_batches);
    options_.ranks = {{whole}};
  }
  std::map<int, Place> by_begin;
  for (size_t index = 0; index < options_.ranks.size(); ++index) {
    model::RankConfig config;
    config.model = options_.model;
    config.compute = options_.compute;
    config.micro_batch = options_.micro_batch;
    config.micro_batches = options_.micro_batches;
    config.document_mask = options_.document_mask;
    config.seed = options_.seed;
    config.optimizer = options_.optimizer;
    config.stages = options_.ranks[index];
    config.output_buffers = config.d_input_buffers = options_.boundary_buffers;
    for (size_t stage = 0; stage < config.stages.size(); ++stage) {
      StageConfig& at = config.stages[stage];
      if (at.recompute.empty())
        at.recompute.assign(static_cast<size_t>(at.end - at.begin), options_.recompute);
      by_begin[at.begin] = {index, stage};
    }
    DeviceOptions device;
    device.rank = static_cast<int>(index);
    device.threads = options_.threads;
    device.mode = options_.mode;
    device.strict_events = true;
    auto rank = std::make_unique<Rank>();
    rank->device = cpu::make_cpu_device(device);
    rank->math = options_.backend == Backend::cpu ? cpu::make_math(*rank->device)
                                                  : reference::make_math(*rank->device);
    rank->stream = rank->device->create_stream("compute", StreamUse::compute);
    rank->model = std::make_unique<model::RankModel>(*rank->device, rank->math, config);
    rank->model->initialise(*rank->stream);
    ranks_.push_back(std::move(rank));
  }
  for (const auto& [begin, place] : by_begin) order_.push_back(place);
}

Pipeline::~Pipeline() {
  for (auto& rank : ranks_) rank->stream->synchronize();
}

model::SlotIds Pipeline::slots(const Place& place, int64_t micro_batch) {
  const StageConfig& config = stage(place).config();
  const auto m = static_cast<int>(micro_batch);
  return {m % config.forward_slots, m % config.kept_slots, m % config.weight_slots};
}

void Pipeline::forward(int64_t micro_batch, HostBatch& batch, model::Pass pass) {
  for (size_t i = 0; i < order_.size(); ++i) {
    model::Stage& at = stage(order_[i]);
    Stream& stream = stream_of(order_[i]);
    if (i > 0) {
      const Tensor from = stage(order_[i - 1]).output(0);
      const Tensor to = at.input(slots(order_[i], micro_batch));
      stream.copy(to.data, from.data, from.bytes());
    }
    at.forward(stream, slots(order_[i], micro_batch), micro_batch, batch.band(options_.document_mask), pass);
    stream.synchronize();
  }
}

void Pipeline::backward_input(int64_t micro_batch) {
  for (size_t i = order_.size(); i-- > 0;) {
    model::Stage& at = stage(order_[i]);
    Stream& stream = stream_of(order_[i]);
    if (i + 1 < order_.size()) {
      const Tensor from = stage(order_[i + 1]).d_input(0);
      const Tensor to = at.d_output(slots(order_[i], micro_batch));
      stream.copy(to.data, from.data, from.bytes());
    }
    at.backward_input(stream, slots(order_[i], micro_batch), micro_batch);
    stream.synchronize();
  }
}

void Pipeline::backward_weight(int64_t micro_batch) {
  for (const Place& place : order_) {
    stage(place).backward_weight(stream_of(place), slots(place, micro_batch));
    stream_of(place).synchronize();
  }
}

void Pipeline::exchange_tied() {
  model::RankModel& first = *ranks_[order_.front().rank]->model;
  model::RankModel& last = *ranks_[order_.back().rank]->model;
  const Tensor to_first = first.optimizer().received_tied_gradient();
  const Tensor to_last = last.optimizer().received_tied_gradient();
  if (!to_first) return;
  std::memcpy(to_first.data, last.optimizer().sent_tied_gradient().data, to_first.bytes());
  std::memcpy(to_last.data, first.optimizer().sent_tied_gradient().data, to_last.bytes());
}

double Pipeline::backward(std::vector<HostBatch>& batches, Order order) {
  int64_t targets = 0;
  for (const HostBatch& batch : batches)
    targets += std::count_if(batch.targets.begin(), batch.targets.end(), [](int32_t t) { return t >= 0; });
  for (auto& rank : ranks_) {
    rank->model->optimizer().begin(*rank->stream, {steps_, options_.learning_rate, targets});
    rank->model->zero_losses(*rank->stream);
    rank->stream->synchronize();
  }
  const auto count = static_cast<int64_t>(batches.size());
  const auto run_forward = [&](int64_t m) {
    forward(m, batches[static_cast<size_t>(m)], model::Pass::training);
  };
  if (order == Order::forwards_first) {
    for (int64_t m = 0; m < count; ++m) run_forward(m);
  }
  for (int64_t m = 0; m < count; ++m) {
    if (order != Order::forwards_first) run_forward(m);
    backward_input(m);
    if (order != Order::weights_last) backward_weight(m);
  }
  if (order == Order::weights_last) {
    for (int64_t m = 0; m < count; ++m) backward_weight(m);
  }
  exchange_tied();
  std::vector<double> sums;
  for (auto& rank : ranks_) {
    rank->model->optimizer().add_tied(*rank->stream);
    rank->model->optimizer().squares(*rank->stream);
    rank->stream->synchronize();
    const Tensor own = rank->model->optimizer().sums();
    sums.resize(static_cast<size_t>(own.elements()));
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += own.as<double>()[i];
  }
  for (auto& rank : ranks_) {
    std::memcpy(rank->model->optimizer().sums().data, sums.data(), sums.size() * sizeof(double));
    rank->model->optimizer().norm(*rank->stream);
  }
  result_ = ranks_[order_.back().rank]->model->read(*ranks_[order_.back().rank]->stream);
  for (auto& rank : ranks_) rank->stream->synchronize();
  return result_.loss_sum / static_cast<double>(targets);
}

double Pipeline::step(std::vector<HostBatch>& batches, Order order) {
  const double loss = backward(batches, order);
  for (auto& rank : ranks_) {
    rank->model->optimizer().update(*rank->stream);
    rank->stream->synchronize();
  }
  ++steps_;
  return loss;
}

double Pipeline::evaluate(std::vector<HostBatch>& batches) {
  Rank& last = *ranks_[order_.back().rank];
  last.model->zero_losses(*last.stream);
  int64_t targets = 0;
  for (size_t m = 0; m < batches.size(); ++m) {
    forward(static_cast<int64_t>(m), batches[m], model::Pass::evaluation);
    targets +=
        std::count_if(batches[m].targets.begin(), batches[m].targets.end(), [](int32_t t) { return t >= 0; });
  }
  return last.model->read(*last.stream).loss_sum / static_cast<double>(targets);
}

std::vector<float> Pipeline::logits() {
  const int64_t rows = options_.micro_batch * options_.model.sequence_length;
  std::vector<float> values(static_cast<size_t>(rows * options_.model.vocab_size));
  const Tensor out(values.data(), DType::fp32, Shape{rows, options_.model.vocab_size});
  stage(order_.back())
      .logits(stream_of(order_.back()), slots(order_.back(), options_.micro_batches - 1), 0, rows, out);
  stream_of(order_.back()).synchronize();
  return values;
}

void Pipeline::load(const Values& values) {
  for (auto& rank : ranks_) {
    for (const model::Parameter& parameter : rank->model->parameters().parameters()) {
      const std::vector<float>& from = values.at(parameter.spec.name);
      std::memset(parameter.master.data, 0, parameter.master.bytes());
      std::memcpy(parameter.master.data, from.data(), from.size() * sizeof(float));
    }
    rank->model->parameters().refresh_compute(*rank->stream, rank->model->math());
    rank->stream->synchronize();
  }
}

Values Pipeline::collect(Tensor model::Parameter::*member) {
  Values all;
  for (auto& rank : ranks_) {
    rank->stream->synchronize();
    for (const model::Parameter& parameter : rank->model->parameters().parameters()) {
      if (parameter.shared) continue;
      const Tensor& tensor = parameter.*member;
      std::vector<float> values(tensor.as<float>(), tensor.as<float>() + tensor.elements());
      const auto [at, added] = all.emplace(parameter.spec.name, values);
      if (!added && std::memcmp(at->second.data(), values.data(), values.size() * sizeof(float)) != 0)
        all[parameter.spec.name + "@head"] = values;
    }
  }
  return all;
}

Values Pipeline::parameters() {
  return collect(&model::Parameter::master);
}

Values Pipeline::gradients() {
  return collect(&model::Parameter::gradient);
}

double relative_error(const std::vector<float>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double d = static_cast<double>(a[i]) - b[i];
    difference += d * d;
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

void expect_same(const Values& a, const Values& b, const std::string& what) {
  EXPECT_EQ(a.size(), b.size()) << what;
  for (const auto& [name, values] : a) {
    const auto other = b.find(name);
    if (other == b.end()) {
      ADD_FAILURE() << what << ": only one side has " << name;
      continue;
    }
    ASSERT_EQ(values.size(), other->second.size()) << what << ": " << name;
    size_t different = 0;
    for (size_t i = 0; i < values.size(); ++i)
      different += std::memcmp(&values[i], &other->second[i], sizeof(float)) != 0 ? 1 : 0;
    EXPECT_EQ(different, 0U) << what << ": elements of " << name << " that differ, of " << values.size();
  }
}

}  // namespace penstock::testing
