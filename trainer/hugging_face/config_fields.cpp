#include "trainer/hugging_face/config_fields.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace penstock::hugging_face {
namespace {

using nlohmann::json;

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() > 80 ? text.substr(0, 77) + "..." : text;
}

}  // namespace

bool ConfigFields::has(const std::string& name) const {
  const auto found = object_.find(name);
  return found != object_.end() && !found->is_null();
}

const json* ConfigFields::take(const std::string& name) {
  known_.insert(name);
  return has(name) ? &*object_.find(name) : nullptr;
}

void ConfigFields::refuse(const std::string& name, const std::string& reason) {
  known_.insert(name);
  const auto found = object_.find(name);
  problems_.push_back(fmt::format("{}{} = {}: {}", where_, name,
                                  found == object_.end() ? "(missing)" : shown(*found), reason));
}

int64_t ConfigFields::count(const std::string& name, int64_t most, std::optional<int64_t> absent) {
  const json* value = take(name);
  if (value == nullptr && absent) return *absent;
  if (value == nullptr || !value->is_number_integer() || *value < 1 || *value > most) {
    refuse(name, fmt::format("expected a whole number from 1 to {}", most));
    return 0;
  }
  return value->get<int64_t>();
}

double ConfigFields::number(const std::string& name, std::optional<double> absent) {
  const json* value = take(name);
  if (value == nullptr && absent) return *absent;
  if (value == nullptr || !value->is_number() || !(value->get<double>() > 0) ||
      !std::isfinite(value->get<double>())) {
    refuse(name, "expected a number above 0");
    return 1;
  }
  return value->get<double>();
}

double ConfigFields::probability(const std::string& name, double absent) {
  const json* value = take(name);
  if (value == nullptr) return absent;
  if (!value->is_number() || value->get<double>() < 0 || value->get<double>() >= 1) {
    refuse(name, "expected a number from 0 to below 1");
    return absent;
  }
  return value->get<double>();
}

bool ConfigFields::boolean(const std::string& name, bool absent) {
  const json* value = take(name);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) {
    refuse(name, "expected true or false");
    return absent;
  }
  return value->get<bool>();
}

std::string ConfigFields::text(const std::string& name, const std::string& absent) {
  const json* value = take(name);
  if (value == nullptr) return absent;
  if (!value->is_string()) {
    refuse(name, "expected a text");
    return absent;
  }
  return value->get<std::string>();
}

void ConfigFields::only(const std::string& name, std::initializer_list<json> supported) {
  const json* value = take(name);
  if (value == nullptr || std::find(supported.begin(), supported.end(), *value) != supported.end()) return;
  std::string list;
  for (const json& each : supported) list += (list.empty() ? "" : " or ") + shown(each);
  refuse(name, list.empty() ? "supported: null, or the field left out" : "supported: " + list);
}

void ConfigFields::ignore(const std::set<std::string>& names) {
  known_.insert(names.begin(), names.end());
}

void ConfigFields::refuse_the_rest() {
  for (const auto& [name, value] : object_.items()) {
    if (known_.count(name) > 0 || value.is_null()) continue;
    problems_.push_back(fmt::format("{}{} = {}: not known to be harmless", where_, name, shown(value)));
  }
}

}  // namespace penstock::hugging_face
