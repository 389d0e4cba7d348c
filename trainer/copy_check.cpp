#include "trainer/copy_check.h"

#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "data/content_hash.h"

namespace penstock {
namespace {

// Of a parameter's master and moments, or of what kernels read of one whose optimizer is sharded: of that
// alone there are several.
std::string hash_of(const model::Parameter& parameter, bool sharded, const Device& device, Stream& stream) {
  data::ContentHash hash;
  std::vector<std::byte> host;
  std::vector<Tensor> tensors{parameter.master, parameter.moment1, parameter.moment2};
  if (sharded) tensors = {parameter.compute};
  for (const Tensor& tensor : tensors) {
    const void* values = tensor.data;
    if (device.kind() != DeviceKind::cpu) {
      host.resize(tensor.bytes());
      stream.copy(host.data(), tensor.data, tensor.bytes());
      stream.synchronize();
      values = host.data();
    }
    hash.bytes(values, tensor.bytes());
  }
  return hash.hex();
}

// A line a parameter: hash, name.
std::string hashes_of(runtime::PipelineEngine& engine) {
  std::string lines;
  model::RankModel& rank = engine.rank();
  for (const model::Parameter& parameter : rank.parameters().parameters()) {
    if (parameter.shared) continue;
    lines += fmt::format(
        "{} {}\n",
        hash_of(parameter, rank.parameters().shard().count > 1, rank.memory().device(), engine.stream()),
        parameter.spec.name);
  }
  return lines;
}

}  // namespace

std::string differing_copies(runtime::PipelineEngine& engine, transport::World& world) {
  if (engine.plan().training.schedule.copies == 1) return "";
  engine.gather_parameters();
  engine.stream().synchronize();
  const std::vector<std::string> all = world.gather(hashes_of(engine));
  std::string found;
  std::map<std::string, std::pair<std::string, size_t>> known;  // by name: a hash, and a rank that has it
  for (size_t rank = 0; rank < all.size() && found.empty(); ++rank) {
    std::istringstream lines(all[rank]);
    for (std::string hash, name; found.empty() && lines >> hash >> name;) {
      const auto& [first, holder] = known.emplace(name, std::pair(hash, rank)).first->second;
      if (first == hash) continue;
      found = fmt::format(
          "{} is {} on rank {} and {} on rank {} (hashes of weights and moments): the copies of a weight "
          "must "
          "be equal, so that a device or a link has damaged one; go on from the last checkpoint",
          name, first, holder, hash, rank);
    }
  }
  return world.broadcast(found, 0);
}

}  // namespace penstock
