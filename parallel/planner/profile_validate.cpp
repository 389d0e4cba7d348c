#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "parallel/planner/profile.h"

namespace penstock::planner {

namespace {

constexpr const char* kinds[] = {"embedding", "attention", "mlp", "head"};

class Validator {
 public:
  Validator(const Profile& profile, const std::string& place) : profile_(profile), place_(place) {}

  void run() {
    layers_ = profile_.model_integer("layers");
    require(layers_ >= 1 && layers_ <= 65536, "/model/layers", layers_, "1 to 65536");
    require(profile_.model_integer("sequence_length") >= 1, "/model/sequence_length",
            profile_.model_integer("sequence_length"), "1 or more");
    require(profile_.threads >= 1, "/threads", profile_.threads, "1 or more");
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
    number(profile_.traffic_slowdown, "/traffic_slowdown");
    for (size_t i = 0; i < profile_.pace.size(); ++i) {
      const double pace = profile_.pace[i];
      require(std::isfinite(pace) && pace > 0, fmt::format("/pace/{}", i), pace, "a number above 0");
    }
  }

 private:
  template <class Found>
  void require(bool holds, const std::string& pointer, const Found& found, const char* expected) const {
    if (holds) return;
    throw ProfileError(fmt::format("{}: {}: found {}; expected {}", place_, pointer, found, expected));
  }
  void number(double value, const std::string& pointer) const {
    require(std::isfinite(value) && value >= 0, pointer, value, "a number of 0 or more");
  }
  void bytes(int64_t value, const std::string& pointer) const {
    require(value >= 0, pointer, value, "0 or more bytes");
  }
  void timing(const Timing& value, const std::string& pointer) const {
    number(value.median, pointer + "/median");
    number(value.spread, pointer + "/spread");
    require(value.samples >= 1, pointer + "/samples", value.samples, "1 or more");
  }

  template <class Sized>
  void ascending(const std::vector<Sized>& sizes, const std::string& pointer) const {
    require(!sizes.empty(), pointer, "no micro-batch size", "at least one");
    int64_t before = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      require(sizes[i].micro_batch > before, fmt::format("{}/{}/micro_batch", pointer, i),
              sizes[i].micro_batch, "more sequences than the entry before");
      before = sizes[i].micro_batch;
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
    number(unit.flops, pointer + "/flops");
    bytes(unit.resident_bytes, pointer + "/resident_bytes");
    bytes(unit.gradient_bytes, pointer + "/gradient_bytes");
    timing(unit.optimizer_step, pointer + "/optimizer_step");
    ascending(unit.sizes, pointer + "/sizes");
    for (size_t i = 0; i < unit.sizes.size(); ++i)
      check_size(unit.sizes[i], fmt::format("{}/sizes/{}", pointer, i));
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
    require(link.from >= -1, pointer + "/from", link.from, "a rank, or -1 for any");
    require(link.to >= -1 && (link.to == -1) == (link.from == -1), pointer + "/to", link.to,
            "a rank, or -1 where \"from\" is -1");
    number(link.latency, pointer + "/latency");
    if (link.bandwidth) {
      require(std::isfinite(*link.bandwidth) && *link.bandwidth > 0, pointer + "/bandwidth", *link.bandwidth,
              "bytes a second above 0, or null for no limit");
    }
    number(link.bandwidth_alone, pointer + "/bandwidth_alone");
  }

  const Profile& profile_;
  const std::string& place_;
  int64_t layers_ = 0;
  std::set<std::string> general_;
  std::set<std::string> names_;
  std::map<std::string, int> named_;
};

}  // namespace

int64_t Profile::model_integer(const std::string& key) const {
  for (const ModelKey& each : model) {
    if (each.key != key) continue;
    if (const auto* value = std::get_if<int64_t>(&each.value)) return *value;
    throw ProfileError(fmt::format("profile: /model/{}: expected a whole number", key));
  }
  throw ProfileError(fmt::format("profile: /model/{}: found nothing; this key is required", key));
}

void validate(const Profile& profile, const std::string& place) {
  Validator(profile, place).run();
}

}  // namespace penstock::planner
