#include "trainer/model_state.h"

#include <algorithm>
#include <span>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trainer/checkpoint/checkpoint_error.h"

namespace penstock {
namespace {

// What a parameter's earlier version is called after its name: of an asynchronous run.
constexpr std::string_view earlier_version = ".before";

// Calls visit(name, parameter, tensor) for every tensor of a checkpoint of which this rank owns elements:
// parameter.owned of it. A tied weight is the embedding's to save, but a head on another rank has its own
// copy of it to load; of two copies of the weights the first is saved, unless each rank owns other elements.
template <class Visit>
void for_each_tensor(const model::ParameterStore& parameters, bool copies, Visit&& visit) {
  for (const model::Parameter& parameter : parameters.parameters()) {
    if (parameter.shared || parameter.owned.elements() == 0) continue;
    const bool another_copy = parameter.copy > 0 && parameters.shard().count == 1;
    if (!copies && (parameter.spec.tied || another_copy)) continue;
    for (const model::NamedState& state : model::lasting_state(parameter))
      visit(parameter.spec.name + std::string(state.ending), parameter, state.tensor);
    if (parameter.before)
      visit(parameter.spec.name + std::string(earlier_version), parameter, parameter.owned_before());
  }
}

bool ends_with(const std::string& name, std::string_view ending) {
  return name.size() > ending.size() && name.compare(name.size() - ending.size(), ending.size(), ending) == 0;
}

bool holds_earlier_version(const checkpoint::Checkpoint& checkpoint) {
  const auto& tensors = checkpoint.manifest().tensors;
  return std::any_of(tensors.begin(), tensors.end(), [](const checkpoint::GlobalTensor& each) {
    return ends_with(each.name, earlier_version);
  });
}

}  // namespace

std::vector<checkpoint::Source> model_sources(const model::ParameterStore& parameters) {
  std::vector<checkpoint::Source> sources;
  for_each_tensor(parameters, false,
                  [&](const std::string& name, const model::Parameter& parameter, const Tensor& tensor) {
                    checkpoint::Source source;
                    source.name = name;
                    source.dtype = tensor.dtype;
                    source.shape = parameter.spec.shape;
                    source.offset = parameter.owned.begin;
                    source.count = parameter.owned.elements();
                    source.data = tensor.data;
                    sources.push_back(std::move(source));
                  });
  return sources;
}

size_t snapshot_bytes(const model::RankConfig& config) {
  std::vector<size_t> bytes(static_cast<size_t>(config.shard.count), 0);
  for (int unit = 0; unit < model::unit_count(config.model); ++unit) {
    const bool another_copy = config.shard.count == 1 && model::copy_of_unit(config, unit) > 0;
    if (!model::has_unit(config, unit) || another_copy) continue;
    const auto specs = model::unit_parameters(config.model, model::unit_at(config.model, unit));
    for (int member = 0; member < config.shard.count; ++member) {
      const auto slices = model::shard_slices(specs, {config.shard.count, member});
      for (size_t i = 0; i < specs.size(); ++i) {
        if (specs[i].tied) continue;
        const auto elements = static_cast<size_t>(slices[i].elements());
        size_t& sum = bytes[static_cast<size_t>(member)];
        sum += model::lasting_states * aligned(elements * sizeof(float));
        const DType read = specs[i].compute_copy ? config.compute : DType::fp32;
        if (config.weight_versions > 1) sum += aligned(elements * size_of(read));
      }
    }
  }
  return *std::max_element(bytes.begin(), bytes.end());
}

bool saves_in_background(const Job& job) {
  return job.checkpoint.background && job.checkpoint.every_steps > 0;
}

std::vector<checkpoint::TensorDescription> model_tensors(const checkpoint::Checkpoint& checkpoint,
                                                         const ModelSection& model) {
  std::vector<checkpoint::TensorDescription> tensors;
  for (const model::ParameterSpec& spec : model::model_parameters(model)) {
    for (const std::string_view ending : model::lasting_endings)
      tensors.push_back({spec.name + std::string(ending), DType::fp32, spec.shape});
  }
  if (!holds_earlier_version(checkpoint)) return tensors;
  for (const model::ParameterSpec& spec : model::model_parameters(model)) {
    const checkpoint::GlobalTensor* found = checkpoint.find(spec.name + std::string(earlier_version));
    tensors.push_back({spec.name + std::string(earlier_version),
                       found == nullptr ? DType::fp32 : found->dtype, spec.shape});
  }
  return tensors;
}

namespace {

// What a rank that takes no steps needs: the masters' values, as kernels read them.
void load_weights(const checkpoint::Checkpoint& checkpoint, const model::ParameterStore& parameters,
                  Stream& stream) {
  constexpr int64_t piece = int64_t{1} << 21;
  std::vector<float> values(piece);
  for (const model::Parameter& parameter : parameters.parameters()) {
    for (int64_t begin = 0; !parameter.shared && begin < parameter.owned.end; begin += piece) {
      const int64_t count = std::min(piece, parameter.owned.end - begin);
      checkpoint.read(parameter.spec.name, DType::fp32, begin, count, values.data());
      parameters.write(stream, parameter, begin, std::span(values).first(static_cast<size_t>(count)));
    }
  }
}

}  // namespace

void load_parameters(const checkpoint::Checkpoint& checkpoint, const ModelSection& model,
                     model::ParameterStore& parameters, DeviceKind device, math::Math& math, Stream& stream) {
  const auto differences = checkpoint.differences(model_tensors(checkpoint, model));
  if (!differences.empty()) {
    throw checkpoint::CheckpointError(fmt::format("{} is a checkpoint of another model:\n  {}",
                                                  checkpoint.path(), fmt::join(differences, "\n  ")));
  }
  stream.synchronize();
  if (parameters.forward_only()) return load_weights(checkpoint, parameters, stream);
  const bool earlier = holds_earlier_version(checkpoint);
  const auto load = [&](const std::string& name, const model::Parameter& parameter, const Tensor& tensor) {
    const int64_t first = parameter.owned.begin;
    if (!earlier && ends_with(name, earlier_version)) return;
    if (device == DeviceKind::cpu) {
      checkpoint.read(name, tensor.dtype, first, tensor.elements(), tensor.data);
      return;
    }
    std::vector<std::byte> values(tensor.bytes());
    checkpoint.read(name, tensor.dtype, first, tensor.elements(), values.data());
    stream.copy(tensor.data, values.data(), values.size());
    stream.synchronize();  // before the values are gone
  };
  for_each_tensor(parameters, true, load);
  parameters.refresh_compute(stream, math);
  if (!earlier) parameters.forget_earlier(stream);
  stream.synchronize();
}

void load_model(const checkpoint::Checkpoint& checkpoint, model::RankModel& rank, Stream& stream) {
  load_parameters(checkpoint, rank.config().model, rank.parameters(), rank.memory().device().kind(),
                  rank.math(), stream);
}

}  // namespace penstock
