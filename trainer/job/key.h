#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trainer/job/problems.h"
#include "trainer/job/toml_node.h"

namespace penstock {

/// What one value of a key is; a list key holds several.
enum class KeyKind { boolean, integer, number, text, choice, table, string_map };

/// One key of a section, as the section described it, bound to the member that holds its value.
struct Key {
  std::string name;
  std::string help;
  KeyKind kind = KeyKind::text;
  bool list = false;
  bool required = false;
  std::string derived;  ///< in words, what an absent key becomes; empty: the member's initial value
  std::string default_note;

  // Range. Integers use the first two; numbers the other two, which may be open.
  std::optional<int64_t> lowest;
  std::optional<int64_t> highest;
  std::optional<double> low;
  std::optional<double> high;
  bool low_open = false;
  bool high_open = false;
  bool even = false;
  bool not_empty = false;

  std::vector<std::string> choices;
  std::string word;  ///< a word that may stand for a number, and the number
  double word_value = 0;
  std::string list_form;  ///< a choice may also be a list of integers ≥ 1: what it lists
  std::string form;       ///< of a text: what it is, instead of "string"
  std::string shorthand;  ///< a table may be written as the value of this field alone
  bool file_name = false;
  bool none_if_empty = false;
  bool clock_time = false;  ///< an integer of seconds, written "HH:MM:SS"; 0: none

  std::vector<Key> fields;  ///< of a table

  /// The member as it stands, before word, clock_time and none_if_empty are applied; and the other way round.
  std::function<TomlNode()> load;
  std::function<void(const TomlNode&)> store;

  /// The value as a job file writes it; kind none where the file has to leave the key out.
  TomlNode value() const;

  /// Sets the member from a node that check_value() passed.
  void assign(const TomlNode& node) const;
};

/// Type and range in words: "integer ≥ 1", "\"gpt2\" or \"llama\"".
std::string type_text(const Key& key);

/// The default in words: a TOML value, the derivation, "none", or "–" where the key is required.
std::string default_text(const Key& key);

/// Adds a problem for everything that is wrong with `node` as a value of `key`; `path` is "section.key".
/// Returns whether there was none. May rewrite a node from `--set` whose bare text the key takes as a string.
bool check_value(const Key& key, TomlNode& node, const std::string& path, Problems& problems);

/// "HH:MM:SS" (hours may have more digits) to seconds; nothing if it is not of that form.
std::optional<int64_t> seconds_of(const std::string& text);

}  // namespace penstock
