#include "trainer/model_state.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trainer/checkpoint/checkpoint_error.h"

namespace penstock {
namespace {

// What a parameter's earlier version is called after its name: of an asynchronous run.
const std::string earlier_version = ".before";

// Calls visit(name, tensor) for every tensor of a checkpoint that this rank holds. A tied weight is the
// embedding's to save, but a head on another rank has its own copy of it to load; of two copies of the
// weights the first is saved.
template <class Visit>
void for_each_tensor(const model::ParameterStore& parameters, bool copies, Visit&& visit) {
  for (const model::Parameter& parameter : parameters.parameters()) {
    if (parameter.shared) continue;
    if (!copies && (parameter.spec.tied || parameter.copy > 0)) continue;
    for (const model::NamedState& state : model::lasting_state(parameter))
      visit(parameter.spec.name + std::string(state.ending), state.tensor);
    if (parameter.before) visit(parameter.spec.name + earlier_version, parameter.before);
  }
}

bool ends_with(const std::string& name, const std::string& ending) {
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
  for_each_tensor(parameters, false, [&](const std::string& name, const Tensor& tensor) {
    sources.push_back(checkpoint::whole(name, tensor));
  });
  return sources;
}

std::vector<std::byte> copy_to_host(std::vector<checkpoint::Source>& sources, const Device& device,
                                    Stream& stream) {
  if (device.kind() == DeviceKind::cpu) return {};
  const auto bytes_of = [](const checkpoint::Source& source) {
    return static_cast<size_t>(source.count) * size_of(source.dtype);
  };
  size_t bytes = 0;
  for (const checkpoint::Source& source : sources) bytes += bytes_of(source);
  std::vector<std::byte> copies(bytes);
  std::byte* next = copies.data();
  for (checkpoint::Source& source : sources) {
    stream.copy(next, source.data, bytes_of(source));
    source.data = next;
    next += bytes_of(source);
  }
  stream.synchronize();
  return copies;
}

std::vector<checkpoint::TensorDescription> model_tensors(const checkpoint::Checkpoint& checkpoint,
                                                         const ModelSection& model) {
  std::vector<checkpoint::TensorDescription> tensors;
  for (const model::ParameterSpec& spec : model::model_parameters(model)) {
    for (const model::NamedState& state : model::lasting_state({}))
      tensors.push_back({spec.name + std::string(state.ending), DType::fp32, spec.shape});
  }
  if (!holds_earlier_version(checkpoint)) return tensors;
  for (const model::ParameterSpec& spec : model::model_parameters(model)) {
    const checkpoint::GlobalTensor* found = checkpoint.find(spec.name + earlier_version);
    tensors.push_back(
        {spec.name + earlier_version, found == nullptr ? DType::fp32 : found->dtype, spec.shape});
  }
  return tensors;
}

void load_model(const checkpoint::Checkpoint& checkpoint, model::RankModel& rank, Stream& stream) {
  const auto differences = checkpoint.differences(model_tensors(checkpoint, rank.config().model));
  if (!differences.empty()) {
    throw checkpoint::CheckpointError(fmt::format("{} is a checkpoint of another model:\n  {}",
                                                  checkpoint.path(), fmt::join(differences, "\n  ")));
  }
  stream.synchronize();
  const bool earlier = holds_earlier_version(checkpoint);
  for_each_tensor(rank.parameters(), true, [&](const std::string& name, const Tensor& tensor) {
    if (!earlier && ends_with(name, earlier_version)) return;
    if (rank.memory().device().kind() == DeviceKind::cpu) {
      checkpoint.read(name, tensor.dtype, 0, tensor.elements(), tensor.data);
      return;
    }
    std::vector<std::byte> values(tensor.bytes());
    checkpoint.read(name, tensor.dtype, 0, tensor.elements(), values.data());
    stream.copy(tensor.data, values.data(), values.size());
    stream.synchronize();  // before the values are gone
  });
  rank.parameters().refresh_compute(stream, rank.math());
  if (!earlier) rank.parameters().forget_earlier(stream);
  stream.synchronize();
}

}  // namespace penstock
