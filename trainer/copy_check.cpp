#include "trainer/copy_check.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <span>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "data/content_hash.h"

namespace penstock {
namespace {

using model::Parameter;

/// A tensor that several ranks may hold, flat.
struct Shared {
  const Parameter* parameter = nullptr;
  std::string name;  ///< the parameter's, and what of it
  Tensor values;
};

/// A rank's side of the comparison.
class Holder {
 public:
  explicit Holder(runtime::PipelineEngine& engine) : engine_(engine), model_(engine.rank()) {
    engine_.gather_parameters();
    engine_.stream().synchronize();
    // Of a sharded optimizer's master and moments there is one, of what kernels read several.
    const bool sharded = model_.parameters().shard().count > 1;
    for (const Parameter& parameter : model_.parameters().parameters()) {
      if (parameter.shared) continue;
      if (sharded) {
        add(parameter, {".compute", parameter.compute});
        continue;
      }
      for (const model::NamedState& state : model::lasting_state(parameter)) add(parameter, state);
      if (parameter.compute.data != parameter.master.data) add(parameter, {".compute", parameter.compute});
    }
  }

  const std::vector<Shared>& all() const { return shared_; }

  uint64_t hash(const Tensor& values) { return data::hash_bytes(on_host(values), values.bytes()); }

  /// The first of those names that is held here; of two copies the first.
  const Shared* find(const std::string& name) const {
    const auto at = std::find_if(shared_.begin(), shared_.end(),
                                 [&name](const Shared& each) { return each.name == name; });
    return at == shared_.end() ? nullptr : &*at;
  }

  /// Host memory until the next call.
  const void* on_host(const Tensor& values) {
    if (model_.memory().device().kind() == DeviceKind::cpu) return values.data;
    host_.resize(values.bytes());
    engine_.stream().copy(host_.data(), values.data, values.bytes());
    engine_.stream().synchronize();
    return host_.data();
  }

 private:
  void add(const Parameter& parameter, const model::NamedState& state) {
    if (!state.tensor) return;
    shared_.push_back({&parameter, parameter.spec.name + std::string(state.ending), state.tensor});
  }

  runtime::PipelineEngine& engine_;
  model::RankModel& model_;
  std::vector<Shared> shared_;
  std::vector<std::byte> host_;
};

// The hashes of a unit's tensors as one, by (place, copy). A tied weight is held by two units: it has a place
// of its own behind them.
std::map<std::pair<size_t, int>, int64_t> unit_hashes(Holder& holder, const std::vector<uint64_t>& hashes,
                                                      size_t units) {
  std::map<std::pair<size_t, int>, std::vector<uint64_t>> parts;
  for (size_t i = 0; i < hashes.size(); ++i) {
    const Parameter& parameter = *holder.all()[i].parameter;
    const bool tied = parameter.index == 0;
    parts[{tied ? units : static_cast<size_t>(parameter.unit), parameter.copy}].push_back(hashes[i]);
  }
  std::map<std::pair<size_t, int>, int64_t> all;
  for (const auto& [place, values] : parts) {
    const uint64_t hash = data::hash_bytes(values.data(), values.size() * sizeof(uint64_t));
    all[place] = static_cast<int64_t>(hash);
  }
  return all;
}

// The first place whose hash is not the same wherever there is one. Smallest and largest in one round.
std::optional<size_t> first_differing_place(const std::map<std::pair<size_t, int>, int64_t>& hashes,
                                            size_t places, transport::World& world) {
  std::vector<int64_t> largest(2 * places, std::numeric_limits<int64_t>::min());
  for (const auto& [place, hash] : hashes) {
    int64_t& smallest = largest[places + place.first];  // complemented: it is the largest then
    largest[place.first] = std::max(largest[place.first], hash);
    smallest = std::max(smallest, ~hash);
  }
  world.all_reduce(largest, transport::Reduction::maximum);
  for (size_t place = 0; place < places; ++place) {
    const bool held = largest[place] != std::numeric_limits<int64_t>::min() ||
                      largest[places + place] != std::numeric_limits<int64_t>::min();
    if (held && largest[place] != ~largest[places + place]) return place;
  }
  return std::nullopt;
}

// Who holds which hash, by name; names in the order of the lowest rank that holds them.
struct Holders {
  std::string name;
  std::map<std::string, std::vector<int>> by_hash;
};

std::vector<Holders> holders_of(const std::vector<std::string>& lines_by_rank) {
  std::vector<Holders> all;
  for (size_t rank = 0; rank < lines_by_rank.size(); ++rank) {
    std::istringstream lines(lines_by_rank[rank]);
    for (std::string hash, name; lines >> hash >> name;) {
      auto found =
          std::find_if(all.begin(), all.end(), [&](const Holders& each) { return each.name == name; });
      if (found == all.end()) found = all.insert(all.end(), Holders{name, {}});
      std::vector<int>& ranks = found->by_hash[hash];
      if (ranks.empty() || ranks.back() != static_cast<int>(rank)) ranks.push_back(static_cast<int>(rank));
    }
  }
  return all;
}

std::string number_text(const Tensor& values, const void* block, int64_t at) {
  if (values.dtype == DType::fp32) {
    float value = 0;
    std::memcpy(&value, static_cast<const char*>(block) + at * 4, sizeof value);
    return fmt::format("{:.9g}", value);
  }
  uint16_t bits = 0;
  std::memcpy(&bits, static_cast<const char*>(block) + at * 2, sizeof bits);
  return fmt::format("0x{:04x}", bits);
}

// The first element in which two ranks differ, with both values: hashes of blocks, then one block travels.
struct FirstElement {
  int64_t element = 0;
  std::string values;  ///< "0.5 on rank 1, 0.25 on rank 0"
};

FirstElement first_element(Holder& holder, const std::string& name, int right, int wrong,
                           transport::World& world) {
  if (right == wrong) return {0, fmt::format("both copies are on rank {}", right)};
  constexpr int64_t block = 16384;
  const Shared* mine = holder.find(name);
  const bool is_right = world.rank() == right;
  const bool is_wrong = world.rank() == wrong;
  const auto part = [&](int64_t index) {
    const auto size = static_cast<int64_t>(size_of(mine->values.dtype));
    const int64_t begin = index * block;
    const int64_t count = std::min(block, mine->values.elements() - begin);
    return Tensor(static_cast<char*>(mine->values.data) + begin * size, mine->values.dtype, Shape{count});
  };
  std::string hashes;
  if ((is_right || is_wrong) && mine != nullptr) {
    for (int64_t index = 0; index * block < mine->values.elements(); ++index)
      hashes += data::hash_hex(holder.hash(part(index)));
  }
  const std::string expected = world.broadcast(hashes, right);
  const auto different = std::mismatch(hashes.begin(), hashes.end(), expected.begin(), expected.end()).first;
  const int64_t index =
      std::stoll(world.broadcast(is_wrong ? std::to_string((different - hashes.begin()) / 16) : "", wrong));
  std::string bytes;
  if (is_right) {
    const Tensor values = part(index);
    bytes.assign(static_cast<const char*>(holder.on_host(values)), values.bytes());
  }
  const std::string theirs = world.broadcast(bytes, right);
  std::string answer;
  if (is_wrong) {
    const Tensor values = part(index);
    const auto* ours = static_cast<const char*>(holder.on_host(values));
    const auto at = std::mismatch(theirs.begin(), theirs.end(), ours).first - theirs.begin();
    const int64_t place = std::min<int64_t>(at / static_cast<int64_t>(size_of(values.dtype)), block - 1);
    answer = fmt::format(
        "{} {} on rank {} and {} on rank {}", mine->parameter->spec.slice.begin + index * block + place,
        number_text(values, ours, place), wrong, number_text(values, theirs.data(), place), right);
  }
  answer = world.broadcast(answer, wrong);
  const size_t space = answer.find(' ');
  return {std::stoll(answer.substr(0, space)), answer.substr(space + 1)};
}

std::string ranks_text(const std::vector<int>& ranks, const runtime::Topology& topology) {
  std::vector<std::string> words;
  for (const int rank : ranks)
    words.push_back(fmt::format("{} (replica {})", rank, topology.place(rank).replica));
  return fmt::format("{} {}", words.size() == 1 ? "rank" : "ranks", fmt::join(words, ", "));
}

}  // namespace

std::optional<CopyDifference> differing_copies(runtime::PipelineEngine& engine, transport::World& world) {
  Holder holder(engine);
  std::vector<uint64_t> hashes;
  for (const Shared& each : holder.all()) hashes.push_back(holder.hash(each.values));
  const ModelSection& section = engine.rank().config().model;
  const auto units = static_cast<size_t>(model::unit_count(section));
  const auto place = first_differing_place(unit_hashes(holder, hashes, units), units + 1, world);
  if (!place) return std::nullopt;

  std::string lines;
  for (size_t i = 0; i < hashes.size(); ++i) {
    const Parameter& parameter = *holder.all()[i].parameter;
    if ((parameter.index == 0 ? units : static_cast<size_t>(parameter.unit)) != *place) continue;
    lines += fmt::format("{} {}\n", data::hash_hex(hashes[i]), holder.all()[i].name);
  }
  CopyDifference found;
  const auto all = holders_of(world.all_gather(lines));
  const auto differing =
      std::find_if(all.begin(), all.end(), [](const Holders& each) { return each.by_hash.size() > 1; });
  if (differing == all.end()) return std::nullopt;  // hashes of one unit collide otherwise: 2⁻⁶⁴
  const auto better = [](const auto& a, const auto& b) {
    return a.second.size() != b.second.size() ? a.second.size() > b.second.size() : a.second < b.second;
  };
  auto most = differing->by_hash.begin();
  for (auto each = differing->by_hash.begin(); each != differing->by_hash.end(); ++each) {
    if (better(*each, *most)) most = each;
  }
  found.what = differing->name;
  found.unit = name_of(model::unit_at(section, *place == units ? 0 : static_cast<int>(*place)));
  found.agreeing = most->second;
  for (const auto& [hash, ranks] : differing->by_hash) {
    if (hash != most->first) found.differing.insert(found.differing.end(), ranks.begin(), ranks.end());
  }
  std::sort(found.differing.begin(), found.differing.end());
  const FirstElement first =
      first_element(holder, found.what, found.agreeing.front(), found.differing.front(), world);
  found.element = first.element;
  const runtime::Topology& topology = engine.plan().topology;
  found.text = fmt::format(
      "unit {}, {} is not the same on {} as on {}; first element {}: {}; replicas and copies of a weight "
      "must "
      "be equal, so that a device, its memory or a link has damaged one; go on from the last checkpoint "
      "before it, without that machine",
      found.unit, found.what, ranks_text(found.differing, topology), ranks_text(found.agreeing, topology),
      first.element, first.values);
  return found;
}

}  // namespace penstock
