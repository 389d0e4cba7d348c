#include "data/checked_json.h"

#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "data/data_error.h"
#include "data/json/json_fault.h"

namespace penstock::data {

using nlohmann::json;

namespace {

constexpr const char* correct_file = "correct the file or make it anew";

}  // namespace

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

const json* optional_member(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

CheckedJson::CheckedJson(std::string origin, std::string what, std::string other_kind)
    : origin_(std::move(origin)), what_(std::move(what)), other_kind_(std::move(other_kind)) {}

void CheckedJson::wrong(const std::string& place, const std::string& found,
                        const std::string& expected) const {
  throw DataError(Fault{origin_ + ": " + place, {}, found, expected, correct_file});
}

void CheckedJson::other_kind(const std::string& place, const std::string& found,
                             const std::string& expected) const {
  throw DataError(Fault{origin_ + ": " + place, {}, found, expected, other_kind_});
}

// JSON lets a key appear twice and libraries keep the last one in silence: here it is an error.
json CheckedJson::parse(std::string_view text) const {
  std::vector<std::set<std::string>> open_objects;
  const auto watch = [&](int /*depth*/, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == json::parse_event_t::object_end) open_objects.pop_back();
    if (event == json::parse_event_t::key && !open_objects.back().insert(parsed.get<std::string>()).second) {
      wrong("an object", "the key " + shown(parsed) + " twice", "each key once");
    }
    return true;
  };
  try {
    return json::parse(text.begin(), text.end(), watch);
  } catch (const json::exception& error) {
    const JsonFault fault = json_fault(text, error);
    throw DataError(Fault{
        origin_, fault.byte,
        fmt::format("text that is not JSON (line {}, column {}: {})", fault.line, fault.column, fault.what),
        what_, correct_file});
  }
}

void CheckedJson::expect_object(const json& value, const std::string& place) const {
  if (!value.is_object()) wrong(place, value.type_name(), "an object");
}

void CheckedJson::expect_list(const json& value, const std::string& place) const {
  if (!value.is_array()) wrong(place, value.type_name(), "a list");
}

const json& CheckedJson::member(const json& object, const char* key, const std::string& prefix) const {
  const auto found = object.find(key);
  if (found == object.end()) wrong(prefix + key, "nothing", "this key");
  return *found;
}

std::string CheckedJson::text(const json& value, const std::string& place) const {
  if (!value.is_string()) wrong(place, shown(value), "a string");
  return value.get<std::string>();
}

std::string CheckedJson::type_of(const json& object, const std::string& place) const {
  expect_object(object, place);
  return text(member(object, "type", place + "."), place + ".type");
}

void CheckedJson::expect_type(const json& object, const std::string& place, const char* expected) const {
  const std::string type = type_of(object, place);
  if (type != expected) {
    other_kind(place + ".type", "\"" + type + "\"", std::string("\"") + expected + "\"");
  }
}

void CheckedJson::expect_flag(const json& object, const std::string& place, const char* key,
                              bool expected) const {
  const auto found = object.find(key);
  if (found == object.end() || *found == json(expected)) return;
  other_kind(place + "." + key, shown(*found), expected ? "true" : "false");
}

bool CheckedJson::flag(const json& object, const std::string& place, const char* key) const {
  const auto found = object.find(key);
  if (found == object.end()) return false;
  if (!found->is_boolean()) wrong(place + "." + key, shown(*found), "true or false");
  return found->get<bool>();
}

}  // namespace penstock::data
