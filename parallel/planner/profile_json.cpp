// The profile's file. Every struct says once which keys it has (describe); a writer and a reader walk it.
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "data/json/json_fault.h"
#include "parallel/planner/profile.h"

namespace penstock::planner {

namespace {

using Json = nlohmann::ordered_json;

template <class V>
void describe(V& v, Timing& timing) {
  v("median", timing.median);
  v("spread", timing.spread);
  v("samples", timing.samples);
}

template <class V>
void describe(V& v, MeasuredMode& mode) {
  v("mode", mode.mode);
  v("forward", mode.forward);
  v("recompute", mode.recompute);
  v("backward_input", mode.backward_input);
  v("backward_weight", mode.backward_weight);
  v("forward_bytes", mode.forward_bytes);
  v("kept_bytes", mode.kept_bytes);
  v("weight_bytes", mode.weight_bytes);
  v("transient_bytes", mode.transient_bytes);
}

template <class V>
void describe(V& v, MeasuredSize& size) {
  v("micro_batch", size.micro_batch);
  v("workspace_bytes", size.workspace_bytes);
  v("side_band_bytes", size.side_band_bytes);
  v("modes", size.modes);
}

template <class V>
void describe(V& v, MeasuredUnit& unit) {
  v("kind", unit.kind);
  v.optional("only", unit.only);
  v("parameters", unit.parameters);
  v("flops", unit.flops);
  v("resident_bytes", unit.resident_bytes);
  v("gradient_bytes", unit.gradient_bytes);
  v("optimizer_step", unit.optimizer_step);
  v("sizes", unit.sizes);
}

template <class V>
void describe(V& v, MeasuredLink& link) {
  v("from", link.from);
  v("to", link.to);
  v("latency", link.latency);
  v("bandwidth", link.bandwidth);
  v("bandwidth_alone", link.bandwidth_alone);
}

template <class V>
void describe(V& v, MeasuredShape& shape) {
  v("micro_batch", shape.micro_batch);
  v("boundary_bytes", shape.boundary_bytes);
  v("rank_bytes", shape.rank_bytes);
}

template <class V>
void describe(V& v, Profile& profile) {
  v("device", profile.device);
  v("versions", profile.versions);
  v("threads", profile.threads);
  v.optional("threads_per_processor", profile.threads_per_processor);
  v("compute", profile.compute);
  v("model", profile.model);
  v("tied_embeddings", profile.tied_embeddings);
  v("tied_exchange_bytes", profile.tied_exchange_bytes);
  v("tied_shared_bytes", profile.tied_shared_bytes);
  v("shapes", profile.shapes);
  v("units", profile.units);
  v("links", profile.links);
  v("reduction", profile.reduction);
  v("traffic_slowdown", profile.traffic_slowdown);
  v.optional("pace", profile.pace);
}

class Writer {
 public:
  template <class T>
  void operator()(const char* key, T& value) {
    out_[key] = json(value);
  }
  template <class T>
  void optional(const char* key, T& value) {
    if (!(value == T{})) out_[key] = json(value);
  }
  Json take() { return std::move(out_); }

 private:
  static Json json(bool value) { return value; }
  static Json json(int64_t value) { return value; }
  static Json json(double value) { return value; }
  static Json json(std::string& value) { return value; }
  static Json json(Recompute value) { return to_string(value); }
  static Json json(std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }
  static Json json(std::optional<MeasuredLink>& value) { return value ? json(*value) : Json(nullptr); }
  static Json json(std::vector<ModelKey>& keys) {
    Json out = Json::object();
    for (const ModelKey& key : keys) std::visit([&](const auto& value) { out[key.key] = value; }, key.value);
    return out;
  }
  static Json json(std::vector<std::pair<std::string, std::string>>& pairs) {
    Json out = Json::object();
    for (const auto& [name, value] : pairs) out[name] = value;
    return out;
  }
  template <class T>
  static Json json(std::vector<T>& values) {
    Json out = Json::array();
    for (T& value : values) out.push_back(json(value));
    return out;
  }
  template <class T>
  static Json json(T& described) {
    Writer writer;
    describe(writer, described);
    return writer.take();
  }

  Json out_ = Json::object();
};

/// Reads one object; refuses what is missing, of another type, or unknown.
class Reader {
 public:
  Reader(const Json& json, std::string place, std::string pointer)
      : json_(json), place_(std::move(place)), pointer_(std::move(pointer)) {
    if (!json.is_object()) fail(pointer_, json, "an object");
  }

  template <class T>
  void operator()(const char* key, T& value) {
    known_.insert(key);
    const auto found = json_.find(key);
    if (found == json_.end()) {
      throw ProfileError(
          fmt::format("{}: {}/{}: found nothing; this key is required", place_, pointer_, key));
    }
    read(*found, pointer_ + "/" + key, value);
  }
  template <class T>
  void optional(const char* key, T& value) {
    known_.insert(key);
    const auto found = json_.find(key);
    if (found != json_.end()) read(*found, pointer_ + "/" + key, value);
  }

  void refuse_unknown_keys() const {
    for (const auto& [key, value] : json_.items()) {
      if (known_.count(key) > 0) continue;
      std::string expected;
      for (const std::string& each : known_) expected += (expected.empty() ? "" : ", ") + each;
      throw ProfileError(
          fmt::format("{}: {}/{}: an unknown key; expected: {}", place_, pointer_, key, expected));
    }
  }

 private:
  [[noreturn]] void fail(const std::string& pointer, const Json& found, const char* expected) const {
    std::string text = found.dump();
    constexpr size_t most = 60;
    if (text.size() > most) text = text.substr(0, most) + "…";
    throw ProfileError(fmt::format("{}: {}: found {}; expected {}", place_, pointer.empty() ? "/" : pointer,
                                   text, expected));
  }

  void read(const Json& json, const std::string& pointer, bool& value) const {
    if (!json.is_boolean()) fail(pointer, json, "true or false");
    value = json.get<bool>();
  }
  void read(const Json& json, const std::string& pointer, int64_t& value) const {
    const bool fits = !json.is_number_unsigned() ||
                      json.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (!json.is_number_integer() || !fits) fail(pointer, json, "a whole number");
    value = json.get<int64_t>();
  }
  void read(const Json& json, const std::string& pointer, double& value) const {
    if (!json.is_number()) fail(pointer, json, "a number");
    value = json.get<double>();
  }
  void read(const Json& json, const std::string& pointer, std::string& value) const {
    if (!json.is_string()) fail(pointer, json, "a string");
    value = json.get<std::string>();
  }
  void read(const Json& json, const std::string& pointer, Recompute& value) const {
    for (const Recompute mode : {Recompute::none, Recompute::selective, Recompute::full}) {
      if (json != to_string(mode)) continue;
      value = mode;
      return;
    }
    fail(pointer, json, "\"none\", \"selective\" or \"full\"");
  }
  void read(const Json& json, const std::string& pointer, std::optional<double>& value) const {
    value.reset();
    if (json.is_null()) return;
    double number = 0;
    read(json, pointer, number);
    value = number;
  }
  void read(const Json& json, const std::string& pointer, std::optional<MeasuredLink>& value) const {
    value.reset();
    if (!json.is_null()) read(json, pointer, value.emplace());
  }
  void read(const Json& json, const std::string& pointer, std::vector<ModelKey>& keys) const {
    if (!json.is_object()) fail(pointer, json, "an object of the job's [model] keys");
    for (const auto& [key, value] : json.items()) {
      if (value.is_boolean()) {
        keys.push_back({key, value.get<bool>()});
      } else if (value.is_number_integer()) {
        keys.push_back({key, value.get<int64_t>()});
      } else if (value.is_number()) {
        keys.push_back({key, value.get<double>()});
      } else if (value.is_string()) {
        keys.push_back({key, value.get<std::string>()});
      } else {
        fail(fmt::format("{}/{}", pointer, key), value, "a boolean, a number or a string");
      }
    }
  }
  void read(const Json& json, const std::string& pointer,
            std::vector<std::pair<std::string, std::string>>& pairs) const {
    if (!json.is_object()) fail(pointer, json, "an object of strings");
    for (const auto& [key, value] : json.items()) {
      pairs.emplace_back(key, "");
      read(value, fmt::format("{}/{}", pointer, key), pairs.back().second);
    }
  }
  template <class T>
  void read(const Json& json, const std::string& pointer, std::vector<T>& values) const {
    if (!json.is_array()) fail(pointer, json, "a list");
    for (size_t i = 0; i < json.size(); ++i)
      read(json[i], fmt::format("{}/{}", pointer, i), values.emplace_back());
  }
  template <class T>
  void read(const Json& json, const std::string& pointer, T& described) const {
    Reader reader(json, place_, pointer);
    describe(reader, described);
    reader.refuse_unknown_keys();
  }

  const Json& json_;
  std::string place_;
  std::string pointer_;
  std::set<std::string> known_;
};

}  // namespace

std::string write_profile(const Profile& profile) {
  validate(profile, "profile");
  Json out{{"schema", profile_schema}};
  Writer writer;
  Profile copy = profile;
  describe(writer, copy);
  const Json body = writer.take();
  for (const auto& [key, value] : body.items()) out[key] = value;
  return out.dump(1) + "\n";
}

Profile read_profile(const std::string& text, const std::string& place) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {
    const data::JsonFault fault = data::json_fault(text, error);
    throw ProfileError(fmt::format("{}:{}:{}: is not JSON: {}; `penstock profile` makes a profile", place,
                                   fault.line, fault.column, fault.what));
  }
  Profile profile;
  Reader reader(json, place, "");
  // Before everything else: another version may have other keys.
  int64_t schema = 0;
  reader("schema", schema);
  if (schema != profile_schema) {
    throw ProfileError(
        fmt::format("{}: /schema: found {}; this build reads {}: measure again with `penstock "
                    "profile`",
                    place, schema, profile_schema));
  }
  describe(reader, profile);
  reader.refuse_unknown_keys();
  validate(profile, place);
  return profile;
}

std::string profile_text(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    throw ProfileError(
        fmt::format("{}: found a folder; expected a profile, as profile.json in a run's folder", path));
  }
  std::ifstream in(path);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  if (!in) {
    throw ProfileError(fmt::format("{}: cannot read this profile: {}; `penstock profile` makes one", path,
                                   std::strerror(errno)));
  }
  return text.str();
}

Profile read_profile_file(const std::string& path) {
  return read_profile(profile_text(path), path);
}

}  // namespace penstock::planner
