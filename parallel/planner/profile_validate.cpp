#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "parallel/planner/profile.h"

namespace penstock::planner {

namespace {

constexpr const char* kinds[] = {"embedding", "attention", "mlp", "head"};

// Far beyond what machines do, and far from where sums and products of a whole model leave their types.
constexpr double longest_time = 1e6;  // seconds: eleven days
constexpr double most_flops = 1e24;
constexpr double least_rate = 1;  // bytes a second
constexpr double most_rate = 1e15;
constexpr double most_slowdown = 100;
constexpr double most_crowded = 1e6;
constexpr double least_pace = 1e-3;
constexpr double most_pace = 1e3;
constexpr int64_t most_bytes = int64_t{1} << 44;  // 16 TiB
constexpr int64_t most_samples = 1'000'000'000;
constexpr int64_t most_sequences = int64_t{1} << 32;
constexpr int64_t longest_sequence = int64_t{1} << 24;
constexpr int64_t most_ranks = int64_t{1} << 20;
constexpr int64_t most_threads = 4096;

class Validator {
 public:
  Validator(const Profile& profile, const std::string& place) : profile_(profile), place_(place) {}

  void run() {
    layers_ = profile_.model_integer("layers", place_);
    require(layers_ >= 1 && layers_ <= 65536, "/model/layers", layers_, "1 to 65536");
    whole(profile_.model_integer("sequence_length", place_), 1, longest_sequence, "/model/sequence_length");
    whole(profile_.threads, 1, most_threads, "/threads");
    bytes(profile_.tied_exchange_bytes, "/tied_exchange_bytes");
    bytes(profile_.tied_shared_bytes, "/tied_shared_bytes");
    check_shapes();
    for (size_t i = 0; i < profile_.units.size(); ++i)
      check_unit(profile_.units[i], fmt::format("/units/{}", i));
    for (const char* kind : kinds) {
      // A kind whose units are all named one by one needs no entry for the rest.
      if (general_.count(kind) > 0) continue;
      const bool layered = std::string(kind) == "attention" || std::string(kind) == "mlp";
      const auto named = static_cast<int64_t>(named_[kind]);
      require(named == (layered ? layers_ : 1), "/units", fmt::format("no entry for every \"{}\"", kind),
              "one without \"only\"");
    }
    for (size_t i = 0; i < profile_.links.size(); ++i)
      check_link(profile_.links[i], fmt::format("/links/{}", i));
    if (profile_.reduction) check_link(*profile_.reduction, "/reduction");
    number(profile_.traffic_slowdown, 0, most_slowdown, "/traffic_slowdown");
    number(profile_.threads_per_processor, 0, most_crowded, "/threads_per_processor");
    for (size_t i = 0; i < profile_.pace.size(); ++i)
      number(profile_.pace[i], least_pace, most_pace, fmt::format("/pace/{}", i));
  }

 private:
  template <class Found>
  void require(bool holds, const std::string& pointer, const Found& found,
               const std::string& expected) const {
    if (holds) return;
    throw ProfileError(fmt::format("{}: {}: found {}; expected {}", place_, pointer, found, expected));
  }
  // A NaN is in no range.
  void number(double value, double low, double high, const std::string& pointer) const {
    if (value >= low && value <= high) return;
    require(false, pointer, value, fmt::format("a number from {:g} to {:g}", low, high));
  }
  void whole(int64_t value, int64_t low, int64_t high, const std::string& pointer) const {
    if (value >= low && value <= high) return;
    require(false, pointer, value, fmt::format("a whole number from {} to {}", low, high));
  }
  void seconds(double value, const std::string& pointer) const { number(value, 0, longest_time, pointer); }
  void bytes(int64_t value, const std::string& pointer) const { whole(value, 0, most_bytes, pointer); }
  void timing(const Timing& value, const std::string& pointer) const {
    seconds(value.median, pointer + "/median");
    seconds(value.spread, pointer + "/spread");
    whole(value.samples, 1, most_samples, pointer + "/samples");
  }

  template <class Sized>
  void ascending(const std::vector<Sized>& sizes, const std::string& pointer) const {
    require(!sizes.empty(), pointer, "no micro-batch size", "at least one");
    int64_t before = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      require(sizes[i].micro_batch > before, fmt::format("{}/{}/micro_batch", pointer, i),
              sizes[i].micro_batch, "more sequences than the entry before");
      before = sizes[i].micro_batch;
      whole(before, 1, most_sequences, fmt::format("{}/{}/micro_batch", pointer, i));
    }
  }

  void check_shapes() const {
    ascending(profile_.shapes, "/shapes");
    for (size_t i = 0; i < profile_.shapes.size(); ++i) {
      const std::string pointer = fmt::format("/shapes/{}", i);
      bytes(profile_.shapes[i].boundary_bytes, pointer + "/boundary_bytes");
      bytes(profile_.shapes[i].rank_bytes, pointer + "/rank_bytes");
    }
  }

  void check_unit(const MeasuredUnit& unit, const std::string& pointer) {
    require(std::find(std::begin(kinds), std::end(kinds), unit.kind) != std::end(kinds), pointer + "/kind",
            '"' + unit.kind + '"', "embedding, attention, mlp or head");
    if (unit.only.empty()) {
      require(general_.insert(unit.kind).second, pointer,
              fmt::format("a second entry for every \"{}\"", unit.kind),
              "\"only\" with the names of the exceptions");
    }
    for (size_t i = 0; i < unit.only.size(); ++i)
      check_name(unit, unit.only[i], fmt::format("{}/only/{}", pointer, i));
    bytes(unit.parameters, pointer + "/parameters");
    number(unit.flops, 0, most_flops, pointer + "/flops");
    bytes(unit.resident_bytes, pointer + "/resident_bytes");
    bytes(unit.gradient_bytes, pointer + "/gradient_bytes");
    timing(unit.optimizer_step, pointer + "/optimizer_step");
    ascending(unit.sizes, pointer + "/sizes");
    for (size_t i = 0; i < unit.sizes.size(); ++i) {
      const std::string at = fmt::format("{}/sizes/{}", pointer, i);
      check_size(unit.sizes[i], at);
      if (unit.kind == "attention" || unit.kind == "mlp") check_same_modes(unit.sizes[i], at + "/modes");
    }
  }

  // A mode that one unit lacks could not be planned for any: it was forgotten, or measured and lost.
  void check_same_modes(const MeasuredSize& size, const std::string& pointer) {
    std::set<Recompute> modes;
    for (const MeasuredMode& each : size.modes) modes.insert(each.mode);
    if (modes_.empty()) {
      modes_ = modes;
      modes_at_ = pointer;
    }
    if (modes == modes_) return;
    const auto names = [](const std::set<Recompute>& these) {
      std::string text;
      for (const Recompute mode : these) text += (text.empty() ? "" : ", ") + std::string(to_string(mode));
      return text;
    };
    require(false, pointer, names(modes),
            fmt::format("the modes of {}, which are {}: measure each attention and MLP under the same modes",
                        modes_at_, names(modes_)));
  }

  // "attention_7" is layer 7's; there is one embedding and one head.
  void check_name(const MeasuredUnit& unit, const std::string& name, const std::string& pointer) {
    bool exists = name == unit.kind && (name == "embedding" || name == "head");
    for (int64_t layer = 0; layer < layers_ && !exists; ++layer)
      exists =
          (unit.kind == "attention" || unit.kind == "mlp") && name == fmt::format("{}_{}", unit.kind, layer);
    require(exists, pointer, '"' + name + '"', "the name of a unit of this kind, as \"mlp_0\"");
    require(names_.insert(name).second, pointer, '"' + name + '"', "a name that no other entry lists");
    ++named_[unit.kind];
  }

  void check_size(const MeasuredSize& size, const std::string& pointer) const {
    bytes(size.workspace_bytes, pointer + "/workspace_bytes");
    bytes(size.side_band_bytes, pointer + "/side_band_bytes");
    require(!size.modes.empty(), pointer + "/modes", "no mode", "at least one");
    std::set<Recompute> seen;
    for (size_t i = 0; i < size.modes.size(); ++i) {
      const MeasuredMode& mode = size.modes[i];
      const std::string at = fmt::format("{}/modes/{}", pointer, i);
      require(seen.insert(mode.mode).second, at + "/mode", to_string(mode.mode), "each mode once");
      timing(mode.forward, at + "/forward");
      timing(mode.recompute, at + "/recompute");
      timing(mode.backward_input, at + "/backward_input");
      timing(mode.backward_weight, at + "/backward_weight");
      bytes(mode.forward_bytes, at + "/forward_bytes");
      bytes(mode.kept_bytes, at + "/kept_bytes");
      bytes(mode.weight_bytes, at + "/weight_bytes");
      bytes(mode.transient_bytes, at + "/transient_bytes");
    }
  }

  void check_link(const MeasuredLink& link, const std::string& pointer) const {
    require(link.from >= -1 && link.from < most_ranks, pointer + "/from", link.from, "a rank, or -1 for any");
    require(link.to >= -1 && link.to < most_ranks && (link.to == -1) == (link.from == -1), pointer + "/to",
            link.to, "a rank, or -1 where \"from\" is -1");
    require(link.from == -1 || link.from != link.to, pointer + "/to", link.to,
            "another rank than \"from\": a rank sends itself nothing");
    seconds(link.latency, pointer + "/latency");
    if (link.bandwidth) {
      require(*link.bandwidth >= least_rate && *link.bandwidth <= most_rate, pointer + "/bandwidth",
              *link.bandwidth,
              fmt::format("bytes a second from {:g} to {:g}, or null for no limit", least_rate, most_rate));
    }
    // 0: not measured.
    number(link.bandwidth_alone, 0, most_rate, pointer + "/bandwidth_alone");
  }

  const Profile& profile_;
  const std::string& place_;
  int64_t layers_ = 0;
  std::set<std::string> general_;
  std::set<std::string> names_;
  std::map<std::string, int> named_;
  std::set<Recompute> modes_;  ///< of the first attention or MLP
  std::string modes_at_;       ///< where these are
};

}  // namespace

int64_t Profile::model_integer(const std::string& key, const std::string& place) const {
  for (const ModelKey& each : model) {
    if (each.key != key) continue;
    if (const auto* value = std::get_if<int64_t>(&each.value)) return *value;
    throw ProfileError(fmt::format("{}: /model/{}: expected a whole number", place, key));
  }
  throw ProfileError(fmt::format("{}: /model/{}: found nothing; this key is required", place, key));
}

void validate(const Profile& profile, const std::string& place) {
  Validator(profile, place).run();
}

}  // namespace penstock::planner
