#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace penstock::data {

/// JSON that must have a given form: every check throws DataError, which names the file, the place in it,
/// what was found, what was expected, and what to do.
class CheckedJson {
 public:
  /// `origin`: the file. `what`: what it should be, "a Hugging Face tokenizer.json". `other_kind`: the advice
  /// where the file is right but of a kind that is not read.
  CheckedJson(std::string origin, std::string what, std::string other_kind);

  const std::string& origin() const { return origin_; }

  /// A key that appears twice in an object is an error.
  nlohmann::json parse(std::string_view text) const;

  [[noreturn]] void wrong(const std::string& place, const std::string& found,
                          const std::string& expected) const;
  [[noreturn]] void other_kind(const std::string& place, const std::string& found,
                               const std::string& expected) const;

  void expect_object(const nlohmann::json& value, const std::string& place) const;
  void expect_list(const nlohmann::json& value, const std::string& place) const;
  /// `prefix`: the object's place with a dot, or nothing.
  const nlohmann::json& member(const nlohmann::json& object, const char* key,
                               const std::string& prefix) const;
  std::string text(const nlohmann::json& value, const std::string& place) const;
  /// The object's "type".
  std::string type_of(const nlohmann::json& object, const std::string& place) const;
  void expect_type(const nlohmann::json& object, const std::string& place, const char* expected) const;
  /// `key` absent counts as the expected value.
  void expect_flag(const nlohmann::json& object, const std::string& place, const char* key,
                   bool expected) const;
  /// A flag that may be either; absent: false.
  bool flag(const nlohmann::json& object, const std::string& place, const char* key) const;

 private:
  std::string origin_;
  std::string what_;
  std::string other_kind_;
};

/// At most 60 bytes of it.
std::string shown(const nlohmann::json& value);

/// The member of that name, or null where it is absent or null.
const nlohmann::json* optional_member(const nlohmann::json& object, const char* key);

}  // namespace penstock::data
