#include "trainer/job/key.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "parallel/schedule/nearest.h"

namespace penstock {
namespace {

constexpr size_t kShownValue = 60;

std::string found_text(const TomlNode& node) {
  std::string value = to_text(node);
  if (value.size() > kShownValue) {
    size_t end = kShownValue;
    while (end > 0 && (static_cast<unsigned char>(value[end]) & 0xc0) == 0x80) --end;
    value = value.substr(0, end) + "…";
  }
  return fmt::format("{} ({})", value, kind_name(node.kind));
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += i + 1 == words.size() ? " or " : ", ";
    out += '"' + words[i] + '"';
  }
  return out;
}

std::string integer_text(const Key& key) {
  std::string name = key.even ? "even integer" : "integer";
  if (key.lowest && key.highest) return fmt::format("{} from {} to {}", name, *key.lowest, *key.highest);
  if (key.lowest) return fmt::format("{} ≥ {}", name, *key.lowest);
  if (key.highest) return fmt::format("{} ≤ {}", name, *key.highest);
  return name;
}

std::string number_text(const Key& key) {
  if (key.low && key.high) {
    return fmt::format("number in {}{}, {}{}", key.low_open ? '(' : '[', *key.low, *key.high,
                       key.high_open ? ')' : ']');
  }
  if (key.low) return fmt::format("number {} {}", key.low_open ? ">" : "≥", *key.low);
  if (key.high) return fmt::format("number {} {}", key.high_open ? "<" : "≤", *key.high);
  return "number";
}

std::string text_type(const Key& key) {
  if (key.file_name) return "string, a file name";
  return key.form.empty() ? "string" : key.form;
}

std::string element_text(const Key& key) {
  std::string out;
  switch (key.kind) {
    case KeyKind::boolean:
      return "bool";
    case KeyKind::integer:
      out = key.clock_time ? "\"HH:MM:SS\"" : integer_text(key);
      break;
    case KeyKind::number:
      out = number_text(key);
      break;
    case KeyKind::text:
      return text_type(key);
    case KeyKind::choice:
      out = joined(key.choices);
      if (!key.list_form.empty()) out += ", or " + key.list_form;
      break;
    case KeyKind::string_map:
      return "table of strings";
    case KeyKind::table: {
      std::string names;
      for (const Key& field : key.fields) names += (names.empty() ? "" : ", ") + field.name;
      out = "table {" + names + "}";
      if (!key.shorthand.empty()) out = fmt::format("{} or {}", key.shorthand, out);
      break;
    }
  }
  if (!key.word.empty()) out += fmt::format(", or \"{}\"", key.word);
  return out;
}

bool in_range(const Key& key, int64_t value) {
  if (key.lowest && value < *key.lowest) return false;
  if (key.highest && value > *key.highest) return false;
  return !key.even || value % 2 == 0;
}

bool in_range(const Key& key, double value) {
  if (!std::isfinite(value)) return false;
  if (key.low && (key.low_open ? value <= *key.low : value < *key.low)) return false;
  return !key.high || (key.high_open ? value < *key.high : value <= *key.high);
}

bool text_fits(const Key& key, const std::string& text) {
  if (text.empty()) return key.none_if_empty;
  if (text.find('\0') != std::string::npos) return false;
  if (!key.file_name) return true;
  if (text == "." || text == ".." || text.size() > 200) return false;
  for (const char c : text) {
    if (c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  }
  return true;
}

bool contains(const std::vector<std::string>& words, const std::string& word) {
  for (const std::string& each : words) {
    if (each == word) return true;
  }
  return false;
}

bool check_table(const Key& key, TomlNode& node, const std::string& path, Problems& problems) {
  bool good = true;
  std::vector<std::string> names;
  for (const Key& field : key.fields) names.push_back(field.name);
  for (TomlNode::Entry& entry : node.table) {
    const Key* field = nullptr;
    for (const Key& each : key.fields) {
      if (each.name == entry.key) field = &each;
    }
    const std::string at = path + "." + key_text(entry.key);
    if (field != nullptr) {
      good = check_value(*field, entry.value, at, problems) && good;
      continue;
    }
    good = false;
    const std::string near = nearest(entry.key, names);
    problems.add(entry.place, near.empty()
                                  ? fmt::format("{}: unknown key; known here: {}", at, fmt::join(names, ", "))
                                  : fmt::format("{}: unknown key; did you mean `{}`?", at, near));
  }
  for (const Key& field : key.fields) {
    if (!field.required || node.find(field.name) != nullptr) continue;
    good = false;
    problems.add(node.place,
                 fmt::format("{}.{}: missing; {}: {}", path, field.name, type_text(field), field.help));
  }
  return good;
}

bool check_map(TomlNode& node, const std::string& path, Problems& problems) {
  bool good = true;
  for (TomlNode::Entry& entry : node.table) {
    if (entry.value.kind != TomlNode::Kind::table && entry.value.kind != TomlNode::Kind::list &&
        entry.value.kind != TomlNode::Kind::date) {
      continue;
    }
    good = false;
    problems.add(entry.value.place, fmt::format("{}.{}: expected string, integer, float or bool, found {}",
                                                path, key_text(entry.key), found_text(entry.value)));
  }
  return good;
}

// A refused choice: nearest one.
std::string choice_hint(const Key& key, const TomlNode& node) {
  if (node.kind != TomlNode::Kind::text) return "";
  std::vector<std::string> words = key.choices;
  if (!key.word.empty()) words.push_back(key.word);
  const std::string near = nearest(node.text, words);
  return near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near);
}

std::string type_hint(const Key& key, const TomlNode& node) {
  if (key.kind == KeyKind::integer && node.kind == TomlNode::Kind::number &&
      std::trunc(node.number) == node.number && std::fabs(node.number) < 1e15) {
    return fmt::format("; write {}", static_cast<int64_t>(node.number));
  }
  const bool wants_number = key.kind == KeyKind::integer || key.kind == KeyKind::number;
  if (node.kind == TomlNode::Kind::text && node.argument.empty() &&
      ((wants_number && !key.clock_time && !node.text.empty() &&
        node.text.find_first_not_of("0123456789.eE+-_") == std::string::npos) ||
       (key.kind == KeyKind::boolean && (node.text == "true" || node.text == "false")))) {
    return "; write it without quotes";
  }
  if (node.kind == TomlNode::Kind::date && key.clock_time) return "; write it in quotes";
  return "";
}

bool check_list(const Key& key, TomlNode& node, const std::string& path, Problems& problems) {
  bool good = true;
  for (size_t i = 0; i < node.list.size(); ++i) {
    Key element = key;
    element.list = false;
    good = check_value(element, node.list[i], fmt::format("{}[{}]", path, i), problems) && good;
  }
  if (node.list.empty() && key.not_empty) {
    problems.add(node.place, fmt::format("{}: expected {}, found an empty list", path, type_text(key)));
    good = false;
  }
  return good;
}

bool check_units(const Key& key, const TomlNode& node, const std::string& path, Problems& problems) {
  for (const TomlNode& item : node.list) {
    if (item.kind == TomlNode::Kind::integer && item.integer >= 1 && item.integer <= 65536) continue;
    problems.add(item.place, fmt::format("{}: expected {}, each an integer from 1 to 65536; found {}", path,
                                         key.list_form, found_text(item)));
    return false;
  }
  if (!node.list.empty()) return true;
  problems.add(node.place, fmt::format("{}: expected {}, found an empty list", path, key.list_form));
  return false;
}

// Whether the scalar fits, all told; the caller says how it does not.
bool fits(const Key& key, const TomlNode& node) {
  const bool text = node.kind == TomlNode::Kind::text;
  if (text && !key.word.empty() && node.text == key.word) return true;
  switch (key.kind) {
    case KeyKind::boolean:
      return node.kind == TomlNode::Kind::boolean;
    case KeyKind::integer:
      if (key.clock_time) return text && seconds_of(node.text).value_or(0) > 0;
      return node.kind == TomlNode::Kind::integer && in_range(key, node.integer);
    case KeyKind::number:
      if (node.kind == TomlNode::Kind::integer) return in_range(key, static_cast<double>(node.integer));
      return node.kind == TomlNode::Kind::number && in_range(key, node.number);
    case KeyKind::text:
      return text && text_fits(key, node.text);
    case KeyKind::choice:
      return text && contains(key.choices, node.text);
    case KeyKind::table:
    case KeyKind::string_map:
      return node.kind == TomlNode::Kind::table;
  }
  return false;
}

// On the command line quotes are a burden: where a string is wanted, whatever stands there is one.
void take_bare_text(const Key& key, TomlNode& node) {
  const bool wants_text = key.kind == KeyKind::text || key.kind == KeyKind::choice || key.clock_time;
  const bool scalar = node.kind == TomlNode::Kind::integer || node.kind == TomlNode::Kind::number ||
                      node.kind == TomlNode::Kind::boolean || node.kind == TomlNode::Kind::date;
  if (!wants_text || !scalar || node.argument.empty()) return;
  TomlNode bare = TomlNode::of(node.argument);
  bare.place = node.place;
  bare.argument = node.argument;
  node = std::move(bare);
}

}  // namespace

std::optional<int64_t> seconds_of(const std::string& text) {
  int64_t parts[3] = {0, 0, 0};
  size_t at = 0;
  for (int part = 0; part < 3; ++part) {
    const size_t begin = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
      parts[part] = parts[part] * 10 + (text[at++] - '0');
      if (at - begin > 6) return std::nullopt;
    }
    const size_t digits = at - begin;
    if (part == 0 ? digits == 0 : digits != 2 || parts[part] > 59) return std::nullopt;
    if (part < 2 && (at >= text.size() || text[at++] != ':')) return std::nullopt;
  }
  if (at != text.size()) return std::nullopt;
  return parts[0] * 3600 + parts[1] * 60 + parts[2];
}

std::string type_text(const Key& key) {
  if (!key.list) return element_text(key);
  return (key.not_empty ? "non-empty list of " : "list of ") + element_text(key);
}

std::string default_text(const Key& key) {
  if (key.required) return "–";
  if (!key.derived.empty()) return key.derived;
  if (!key.default_note.empty()) return key.default_note;
  return to_text(key.value());
}

TomlNode Key::value() const {
  TomlNode node = load();
  if (clock_time) {
    if (node.integer == 0) return {};
    return TomlNode::of(
        fmt::format("{:02}:{:02}:{:02}", node.integer / 3600, node.integer / 60 % 60, node.integer % 60));
  }
  if (!word.empty() &&
      ((node.kind == TomlNode::Kind::integer && static_cast<double>(node.integer) == word_value) ||
       (node.kind == TomlNode::Kind::number && node.number == word_value))) {
    return TomlNode::of(word);
  }
  if (node.kind == TomlNode::Kind::text && node.text.empty() && none_if_empty) return {};
  // A derived count that nobody has filled yet lies below its range.
  if (node.kind == TomlNode::Kind::integer && !derived.empty() && lowest && node.integer < *lowest) return {};
  return node;
}

void Key::assign(const TomlNode& node) const {
  if (clock_time) {
    store(TomlNode::of(seconds_of(node.text).value_or(0)));
  } else if (!word.empty() && node.kind == TomlNode::Kind::text) {
    store(kind == KeyKind::integer ? TomlNode::of(static_cast<int64_t>(word_value))
                                   : TomlNode::of(word_value));
  } else {
    store(node);
  }
}

bool check_value(const Key& key, TomlNode& node, const std::string& path, Problems& problems) {
  if (key.list) {
    if (node.kind == TomlNode::Kind::list) return check_list(key, node, path, problems);
    problems.add(node.place,
                 fmt::format("{}: expected {}, found {}", path, type_text(key), found_text(node)));
    return false;
  }
  take_bare_text(key, node);
  if (!key.list_form.empty() && node.kind == TomlNode::Kind::list)
    return check_units(key, node, path, problems);
  if (!key.shorthand.empty() && node.kind != TomlNode::Kind::table) {
    for (const Key& field : key.fields) {
      if (field.name == key.shorthand && fits(field, node)) return true;
    }
  }
  if (!fits(key, node)) {
    problems.add(node.place,
                 fmt::format("{}: expected {}, found {}{}{}", path, type_text(key), found_text(node),
                             key.choices.empty() ? "" : choice_hint(key, node), type_hint(key, node)));
    return false;
  }
  if (key.kind == KeyKind::table) return check_table(key, node, path, problems);
  if (key.kind == KeyKind::string_map) return check_map(node, path, problems);
  return true;
}

}  // namespace penstock
