#include "parallel/runtime/lone_unit.h"

#include <algorithm>
#include <random>
#include <utility>

#include "kernels/math/with_element.h"

namespace penstock::runtime {

namespace {

// What the activations and gradients of a model in training are like, roughly: figures of neither 0 nor
// infinity.
constexpr double activation_deviation = 1.0;
constexpr double gradient_deviation = 1e-3;

template <class T>
std::vector<T> random_values(size_t count, double deviation) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, static_cast<float>(deviation));
  std::vector<T> values;
  values.reserve(count);
  for (size_t i = 0; i < count; ++i) values.push_back(T(normal(random)));
  return values;
}

}  // namespace

LoneUnit::LoneUnit(Device& device, math::Math& math, model::RankConfig config)
    : rank_(device, math, std::move(config)),
      stream_(device.create_stream("measured compute", StreamUse::compute)) {
  rank_.load_constants(*stream_);
  for (const model::Parameter& parameter : rank_.parameters().parameters()) {
    fill(parameter.master, rank_.config().model.init_std);
    fill(parameter.moment1, 0);
    fill(parameter.moment2, 0);
  }
  rank_.parameters().refresh_compute(*stream_, math);
  rank_.optimizer().begin(*stream_, {0, 1e-4, rank_.config().shape().rows()});
  const model::Stage& stage = rank_.stage(0);
  if (!stage.has_embedding()) fill(stage.input({}), activation_deviation);
  if (!stage.has_head()) fill(stage.d_output({}), gradient_deviation);
  fill_side_band();
  stream_->synchronize();
}

LoneUnit::~LoneUnit() = default;

// Of a few thousand values, copied again and again.
void LoneUnit::fill(const Tensor& tensor, double deviation) {
  if (deviation == 0) {
    stream_->fill_zero(tensor.data, tensor.bytes());
    return;
  }
  const size_t size = size_of(tensor.dtype);
  const auto elements = static_cast<size_t>(tensor.elements());
  const size_t first = std::min(elements, size_t{1} << 16);
  char* begin = static_cast<char*>(tensor.data);
  math::with_element(tensor.dtype, [&]<class T>(T) {
    const auto values = random_values<T>(first, deviation);
    stream_->copy(begin, values.data(), first * size);
    stream_->synchronize();
  });
  for (size_t done = first; done < elements;) {
    const size_t count = std::min(done, elements - done);
    stream_->copy(begin + done * size, begin, count * size);
    done += count;
  }
}

void LoneUnit::fill_side_band() {
  const model::RankConfig& config = rank_.config();
  const auto rows = static_cast<size_t>(config.shape().rows());
  std::mt19937 random(2);
  std::uniform_int_distribution<int32_t> token(0, static_cast<int32_t>(config.model.vocab_size - 1));
  for (size_t row = 0; row < rows; ++row) {
    tokens_.push_back(token(random));
    targets_.push_back(token(random));
    positions_.push_back(static_cast<int32_t>(row % static_cast<size_t>(config.model.sequence_length)));
  }
  starts_.assign(rows, 0);  // one document a sequence: all of it is seen, which costs most
  for (int64_t sample = 0; sample < config.micro_batch; ++sample) samples_.push_back(sample);
  const Shape shape{config.shape().rows()};
  inputs_.tokens = Tensor(tokens_.data(), DType::i32, shape);
  inputs_.targets = Tensor(targets_.data(), DType::i32, shape);
  inputs_.positions = Tensor(positions_.data(), DType::i32, shape);
  inputs_.starts = Tensor(starts_.data(), DType::i32, shape);
  inputs_.samples = Tensor(samples_.data(), DType::i64, Shape{config.micro_batch});
}

void LoneUnit::forward() {
  rank_.stage(0).forward(*stream_, {}, 0, inputs_, model::Pass::training);
}

void LoneUnit::backward_input(double* recomputed) {
  model::Stage& stage = rank_.stage(0);
  stage.observe([this, recomputed](int /*unit*/, model::Phase phase, const Tensor& /*handed*/) {
    if (phase == model::Phase::recompute) stream_->stamp(recomputed);
  });
  stage.backward_input(*stream_, {}, 0);
  stage.observe({});
}

void LoneUnit::backward_weight() {
  rank_.stage(0).backward_weight(*stream_, {});
}

void LoneUnit::optimizer_step() {
  rank_.parameters().zero_gradients(*stream_);
  rank_.optimizer().squares(*stream_);
  rank_.optimizer().norm(*stream_);
  rank_.optimizer().update(*stream_);
}

}  // namespace penstock::runtime
