#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock {

/// Where a value was written: in the job file (source 0) or in the n-th `--set` argument (source n). Line and
/// column count from 1, columns in code points; line 0: nowhere.
struct Place {
  int source = 0;
  int line = 0;
  int column = 0;
};

/// A TOML value with its place. Our own type, so that the TOML library is seen by one translation unit only.
struct TomlNode {
  enum class Kind { none, boolean, integer, number, text, date, list, table };
  struct Entry;

  Kind kind = Kind::none;
  bool boolean = false;
  int64_t integer = 0;
  double number = 0.0;
  std::string text;
  std::vector<TomlNode> list;
  std::vector<Entry> table;
  Place place;
  std::string argument;  ///< what stood right of `=` in a `--set`; empty in a file

  static TomlNode of(bool value);
  static TomlNode of(int64_t value);
  static TomlNode of(double value);
  static TomlNode of(std::string value);
  static TomlNode of(const char* value);
  static TomlNode list_of(std::vector<TomlNode> values);
  static TomlNode empty_table();

  /// The entry's value, or nullptr. Only for tables.
  TomlNode* find(const std::string& key);
  const TomlNode* find(const std::string& key) const;
};

struct TomlNode::Entry {
  std::string key;
  Place place;
  TomlNode value;
};

/// Same value, wherever it stands; numbers bit for bit.
bool same_value(const TomlNode& a, const TomlNode& b);

/// The value as TOML writes it, on one line; parses back to the same value.
std::string to_text(const TomlNode& node);

/// A key as TOML writes it: bare where it may be, else quoted.
std::string key_text(const std::string& key);

/// "string", "integer", … for messages.
const char* kind_name(TomlNode::Kind kind);

}  // namespace penstock
