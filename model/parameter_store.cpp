#include "model/parameter_store.h"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "kernels/device/error.h"
#include "kernels/math/with_element.h"
#include "model/initialise.h"
#include "model/unit_id.h"

namespace penstock::model {

ParameterStore::ParameterStore(PlannedMemory& memory, const RankConfig& config)
    : threads_(memory.device().options().threads),
      sets_(static_cast<size_t>(config.gradient_sets)),
      shard_(config.shard),
      forward_only_(config.forward_only),
      versions_(static_cast<size_t>(config.weight_versions)) {
  int64_t index = 0;
  for (int unit = 0; unit < unit_count(config.model); ++unit) {
    if (has_unit(config, unit)) add_unit(memory, config, unit, index);
    for (const ParameterSpec& spec : unit_parameters(config.model, unit_at(config.model, unit))) {
      index += spec.tied ? 0 : 1;
    }
  }
  first_sums_ = std::make_unique<bool[]>(parameters_.size());
}

void ParameterStore::add_unit(PlannedMemory& memory, const RankConfig& config, int unit,
                              int64_t first_index) {
  const auto specs = unit_parameters(config.model, unit_at(config.model, unit));
  const UnitBuffers layout =
      unit_buffers(specs, config.compute, shares_tied_weight(config), config.shard, config.forward_only);
  const auto claim = [&](ArenaTag tag, std::string_view piece, size_t bytes) {
    return Buffer{memory.claim(tag, unit_piece(config.model, unit, piece), bytes), bytes};
  };
  const Buffer master = claim(ArenaTag::parameters, "master", layout.master_bytes);
  const Buffer copy = claim(ArenaTag::parameters, "compute", layout.copy_bytes);
  const Buffer before = claim(ArenaTag::parameters, "before", versions_ > 1 ? layout.read_bytes : 0);
  const Buffer gradient = claim(ArenaTag::gradients, "gradient", layout.gradient_bytes);
  const Buffer gradient2 = claim(ArenaTag::gradients, "gradient2", sets_ > 1 ? layout.gradient_bytes : 0);
  const Buffer moment1 = claim(ArenaTag::optimizer, "moment1", layout.moment_bytes);
  const Buffer moment2 = claim(ArenaTag::optimizer, "moment2", layout.moment_bytes);
  const auto elements = [](size_t bytes) { return static_cast<int64_t>(bytes / size_of(DType::fp32)); };
  const auto flat = [&](const Buffer& buffer) {
    return buffer.bytes == 0 ? Tensor() : Tensor(buffer.memory, DType::fp32, Shape{elements(buffer.bytes)});
  };
  gradients_.push_back({unit, flat(gradient), flat(gradient2), elements(layout.weight_half)});
  for (const Buffer& buffer : {master, copy, before, moment1, moment2}) {
    if (buffer.bytes > 0) others_.push_back(buffer);
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    const ParameterSpec& spec = specs[i];
    const auto view = [&](const Buffer& buffer, size_t offset, DType dtype) {
      return offset == UnitBuffers::npos
                 ? Tensor()
                 : Tensor(static_cast<char*>(buffer.memory) + offset, dtype, spec.shape);
    };
    const auto owned_view = [&](const Buffer& buffer, size_t offset) {
      if (offset == UnitBuffers::npos) return Tensor();
      return Tensor(static_cast<char*>(buffer.memory) + offset, DType::fp32,
                    Shape{layout.owned[i].elements()});
    };
    Parameter parameter;
    parameter.spec = spec;
    parameter.owned = layout.owned[i];
    parameter.whole_master = layout.whole_master[i];
    parameter.unit = unit;
    parameter.copy = copy_of_unit(config, unit);
    parameter.index = spec.tied ? 0 : first_index++;
    parameter.gradient = view(gradient, layout.gradient[i], DType::fp32);
    if (sets_ > 1) parameter.gradient2 = view(gradient2, layout.gradient[i], DType::fp32);
    parameter.shared = spec.tied && shares_tied_weight(config);
    if (parameter.shared) {
      const Parameter& owner = at(tied_embedding_);
      parameter.master = owner.master;
      parameter.whole_master = owner.whole_master;
      parameter.compute = owner.compute;
      parameter.before = owner.before;
      parameter.moment1 = owner.moment1;
      parameter.moment2 = owner.moment2;
    } else {
      parameter.master = parameter.whole_master ? view(master, layout.master[i], DType::fp32)
                                                : owned_view(master, layout.master[i]);
      const Tensor copied = view(copy, layout.copy[i], config.compute);
      parameter.compute = copied ? copied : parameter.master;
      if (versions_ > 1) parameter.before = view(before, layout.read[i], parameter.compute.dtype);
      parameter.moment1 = owned_view(moment1, layout.moment[i]);
      parameter.moment2 = owned_view(moment2, layout.moment[i]);
    }
    const auto place = static_cast<int64_t>(parameters_.size());
    if (spec.tied) tied_head_ = place;
    if (config.model.tie_embeddings && !spec.tied && spec.vocab_rows >= 0) tied_embedding_ = place;
    parameters_.push_back(std::move(parameter));
  }
}

const Parameter& ParameterStore::find(int unit, std::string_view name) const {
  for (const Parameter& parameter : parameters_) {
    if (parameter.unit == unit && parameter.spec.name == name) return parameter;
  }
  throw UsageError(fmt::format("unit {} has no parameter \"{}\" on this rank", unit, name));
}

void ParameterStore::write(Stream& stream, const Parameter& parameter, int64_t begin,
                           std::span<const float> values) const {
  if (!forward_only_ || !parameter.has_copy()) {
    stream.copy(parameter.owned_master().as<float>() + begin, values.data(), values.size_bytes());
    stream.synchronize();
    return;
  }
  math::with_element(parameter.compute.dtype, [&]<class T>(T) {
    std::vector<T> rounded(values.size());
    for (size_t i = 0; i < values.size(); ++i) rounded[i] = T(values[i]);
    stream.copy(parameter.compute.as<T>() + begin, rounded.data(), rounded.size() * sizeof(T));
    stream.synchronize();  // before the values are gone
  });
}

void ParameterStore::initialise(Stream& stream, math::Math& math, uint64_t seed) {
  clear(stream);
  // A piece at a time: a vocabulary's worth of host memory would count in the peak.
  constexpr int64_t piece = int64_t{1} << 21;
  std::vector<float> values(piece);
  for (const Parameter& parameter : parameters_) {
    if (parameter.shared) continue;
    const Slice& owned = parameter.owned;
    for (int64_t begin = owned.begin; begin < owned.end; begin += piece) {
      const int64_t count = std::min(piece, owned.end - begin);
      fill_on_threads(parameter.spec, seed, begin, count, values.data());
      write(stream, parameter, begin - owned.begin, std::span(values).first(static_cast<size_t>(count)));
    }
  }
  refresh_compute(stream, math);
  forget_earlier(stream);
  stream.synchronize();
}

void ParameterStore::clear(Stream& stream) {
  gathered_ = false;
  for (const Buffer& buffer : others_) stream.fill_zero(buffer.memory, buffer.bytes);
  zero_gradients(stream);
}

void ParameterStore::fill_on_threads(const ParameterSpec& spec, uint64_t seed, int64_t begin, int64_t count,
                                     float* values) const {
  constexpr int64_t least = 1 << 14;  // elements that are worth a thread
  const int64_t share = std::max(least, (count + threads_ - 1) / threads_);
  std::vector<std::thread> helpers;
  for (int64_t at = share; at < count; at += share) {
    helpers.emplace_back([&spec, seed, begin, at, end = std::min(at + share, count), values] {
      initial_values(spec, seed, begin + at, begin + end, values + at);
    });
  }
  initial_values(spec, seed, begin, begin + std::min(share, count), values);
  for (std::thread& helper : helpers) helper.join();
}

void ParameterStore::refresh_compute(Stream& stream, math::Math& math) {
  gathered_ = false;
  for (const Parameter& parameter : parameters_) {
    if (parameter.shared || forward_only_ || !parameter.has_copy() || parameter.owned.elements() == 0)
      continue;
    math.pointwise->convert(stream, parameter.owned_master(), parameter.owned_compute());
  }
}

void ParameterStore::zero_gradients(Stream& stream) {
  if (forward_only_) return;
  std::fill_n(first_sums_.get(), parameters_.size(), false);
  for (const UnitGradients& unit : gradients_) {
    stream.fill_zero(unit.values.data, unit.values.bytes());
    if (unit.values2) stream.fill_zero(unit.values2.data, unit.values2.bytes());
  }
}

void ParameterStore::begin_gradients(Stream& stream, bool plans_overwrite) {
  const bool marks = plans_overwrite && sets_ == 1;
  if (!marks && versions_ == 1) {
    zero_gradients(stream);
    return;
  }
  for (const UnitGradients& unit : gradients_) {
    const Tensor& values = gradients(unit);
    const int64_t zeroed = marks ? unit.weight_half : values.elements();
    stream.fill_zero(values.data, static_cast<size_t>(zeroed) * sizeof(float));
  }
  if (!marks) return;
  for (const Parameter& parameter : parameters_) *first_sum(parameter) = parameter.spec.in_weight_half;
}

void ParameterStore::forget_earlier(Stream& stream) {
  for (const Parameter& parameter : parameters_) {
    if (parameter.shared || !parameter.before) continue;
    stream.copy(parameter.before.data, parameter.compute.data, parameter.before.bytes());
  }
}

void ParameterStore::select_version(size_t version) {
  if (version >= versions_)
    throw UsageError(fmt::format("version {} of the weights of a rank that has {}", version, versions_));
  selected_version_ = version;
}

void ParameterStore::select_gradients(size_t set) {
  if (set >= sets_) throw UsageError(fmt::format("set {} of gradients of a rank that has {}", set, sets_));
  selected_ = set;
}

}  // namespace penstock::model
