#include "parallel/runtime/parameter_gatherer.h"

#include <string>

#include <fmt/format.h>

#include "kernels/device/error.h"
#include "model/unit_id.h"

namespace penstock::runtime {

namespace {

// From the first to the last element of the run that `slices` give, as they lie in what kernels read. Between
// parameters lies padding.
Tensor stretch(const model::ShardRun& run, const std::vector<model::Slice>& slices,
               const std::vector<const model::Parameter*>& parameters, size_t version) {
  char* begin = nullptr;
  char* end = nullptr;
  DType dtype = DType::fp32;
  for (const size_t i : run) {
    if (slices[i].elements() == 0) continue;
    const Tensor& read = version == 0 ? parameters[i]->compute : parameters[i]->before;
    dtype = read.dtype;
    const auto size = static_cast<int64_t>(size_of(dtype));
    if (begin == nullptr) begin = read.as<char>() + slices[i].begin * size;
    end = read.as<char>() + slices[i].end * size;
  }
  if (begin == nullptr) return {};
  return {begin, dtype, Shape{(end - begin) / static_cast<int64_t>(size_of(dtype))}};
}

}  // namespace

ParameterGatherer::ParameterGatherer(model::RankModel& rank, transport::Communicator& group) : group_(group) {
  const model::RankConfig& config = rank.config();
  if (group.size() != config.shard.count || group.rank() != config.shard.member) {
    throw UsageError(fmt::format("member {} of {} of a sharded optimizer is rank {} of {} that gather",
                                 config.shard.member, config.shard.count, group.rank(), group.size()));
  }
  for (int unit = 0; unit < model::unit_count(config.model); ++unit) {
    if (!has_unit(config, unit)) continue;
    const auto specs = model::unit_parameters(config.model, model::unit_at(config.model, unit));
    std::vector<const model::Parameter*> parameters;
    parameters.reserve(specs.size());
    for (const model::ParameterSpec& spec : specs)
      parameters.push_back(&rank.parameters().find(unit, spec.name));
    for (const model::ShardRun& run : model::shard_runs(specs)) {
      if (parameters[run.front()]->shared) continue;
      for (size_t version = 0; version < static_cast<size_t>(config.weight_versions); ++version) {
        Run made{unit, {}};
        for (int member = 0; member < group.size(); ++member) {
          const auto slices = model::shard_slices(specs, {group.size(), member});
          made.parts.push_back(stretch(run, slices, parameters, version));
        }
        runs_[version].push_back(std::move(made));
      }
    }
  }
  messages_.reserve(2 * static_cast<size_t>(group.size()));
}

void ParameterGatherer::gather(Stream& stream, int unit, size_t version) {
  const auto self = static_cast<size_t>(group_.rank());
  for (const Run& run : runs_[version]) {
    if (run.unit != unit) continue;
    messages_.clear();
    for (size_t peer = 0; peer < run.parts.size(); ++peer) {
      if (peer == self) continue;
      const int to = static_cast<int>(peer);
      if (run.parts[self]) messages_.push_back(transport::send_to(to, run.parts[self]));
      if (run.parts[peer]) messages_.push_back(transport::receive_from(to, run.parts[peer]));
    }
    if (!messages_.empty()) group_.exchange(stream, messages_);
  }
}

}  // namespace penstock::runtime
