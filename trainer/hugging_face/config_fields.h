#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace penstock::hugging_face {

/// An object of config.json that is read field by field. Whatever is wrong is collected and said at once;
/// a field that nobody asked for is wrong too: it may change what the model computes. null counts as absent.
class ConfigFields {
 public:
  /// `where` stands before names in problems: "" or "rope_scaling.".
  ConfigFields(const nlohmann::json& object, std::string where, std::vector<std::string>& problems)
      : object_(object), where_(std::move(where)), problems_(problems) {}

  bool has(const std::string& name) const;
  const nlohmann::json* take(const std::string& name);

  /// A whole number from 1 to `most`; 0 (and a problem) where it is missing, without a default, or is none.
  int64_t count(const std::string& name, int64_t most, std::optional<int64_t> absent = {});
  /// A number above 0.
  double number(const std::string& name, std::optional<double> absent = {});
  /// A number from 0 to below 1.
  double probability(const std::string& name, double absent);
  bool boolean(const std::string& name, bool absent);
  std::string text(const std::string& name, const std::string& absent);

  /// The field may have only these values; the first is the usual one.
  void only(const std::string& name, std::initializer_list<nlohmann::json> supported);
  /// Fields that change nothing that the model computes.
  void ignore(const std::set<std::string>& names);
  /// Adds `NAME = VALUE: REASON`.
  void refuse(const std::string& name, const std::string& reason);
  /// Adds a problem for every field that was not asked for.
  void refuse_the_rest();

 private:
  const nlohmann::json& object_;
  std::string where_;
  std::vector<std::string>& problems_;
  std::set<std::string> known_;
};

}  // namespace penstock::hugging_face
