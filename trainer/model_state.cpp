#include "trainer/model_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trainer/checkpoint/checkpoint_error.h"

namespace penstock {
namespace {

// Calls visit(name, tensor) for everything of the parameters that a checkpoint holds.
template <class Visit>
void for_each_tensor(const model::ParameterStore& parameters, Visit&& visit) {
  for (const model::Parameter& parameter : parameters.parameters()) {
    if (parameter.shared) continue;  // the embedding's entry holds it
    visit(parameter.spec.name, parameter.master);
    visit(parameter.spec.name + ".moment1", parameter.moment1);
    visit(parameter.spec.name + ".moment2", parameter.moment2);
  }
}

}  // namespace

std::vector<checkpoint::Source> model_sources(const model::ParameterStore& parameters) {
  std::vector<checkpoint::Source> sources;
  for_each_tensor(parameters, [&](const std::string& name, const Tensor& tensor) {
    sources.push_back(checkpoint::whole(name, tensor));
  });
  return sources;
}

std::vector<checkpoint::TensorDescription> model_tensors(const model::ParameterStore& parameters) {
  std::vector<checkpoint::TensorDescription> tensors;
  for_each_tensor(parameters, [&](const std::string& name, const Tensor& tensor) {
    tensors.push_back({name, tensor.dtype, tensor.shape});
  });
  return tensors;
}

void load_model(const checkpoint::Checkpoint& checkpoint, model::RankModel& rank, Stream& stream) {
  const auto differences = checkpoint.differences(model_tensors(rank.parameters()));
  if (!differences.empty()) {
    throw checkpoint::CheckpointError(fmt::format("{} is a checkpoint of another model:\n  {}",
                                                  checkpoint.path(), fmt::join(differences, "\n  ")));
  }
  stream.synchronize();
  for_each_tensor(rank.parameters(), [&](const std::string& name, const Tensor& tensor) {
    checkpoint.read(name, tensor.dtype, 0, tensor.elements(), tensor.data);
  });
  rank.parameters().refresh_compute(stream, rank.math());
  stream.synchronize();
}

}  // namespace penstock
