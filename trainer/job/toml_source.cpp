// The one translation unit that sees the TOML library.
#include "trainer/job/toml_source.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <toml++/toml.h>

namespace penstock {
namespace {

constexpr int kDeepest = 64;

Place place_of(const toml::source_region& region, int source) {
  return {source, static_cast<int>(region.begin.line), static_cast<int>(region.begin.column)};
}

TomlNode convert(const toml::node& node, int source) {
  TomlNode out;
  out.place = place_of(node.source(), source);
  if (const auto* boolean = node.as_boolean()) {
    out.kind = TomlNode::Kind::boolean;
    out.boolean = boolean->get();
  } else if (const auto* integer = node.as_integer()) {
    out.kind = TomlNode::Kind::integer;
    out.integer = integer->get();
  } else if (const auto* number = node.as_floating_point()) {
    out.kind = TomlNode::Kind::number;
    out.number = number->get();
  } else if (const auto* text = node.as_string()) {
    out.kind = TomlNode::Kind::text;
    out.text = text->get();
  } else if (const auto* list = node.as_array()) {
    out.kind = TomlNode::Kind::list;
    for (const toml::node& item : *list) out.list.push_back(convert(item, source));
  } else if (const auto* table = node.as_table()) {
    out.kind = TomlNode::Kind::table;
    for (const auto& [key, value] : *table) {
      out.table.push_back({std::string(key.str()), place_of(key.source(), source), convert(value, source)});
    }
  } else {
    out.kind = TomlNode::Kind::date;
    std::ostringstream date;
    node.visit([&date](const auto& value) {
      if constexpr (toml::is_date<decltype(value)> || toml::is_time<decltype(value)> ||
                    toml::is_date_time<decltype(value)>) {
        date << value.get();
      }
    });
    out.text = date.str();
  }
  return out;
}

// The library builds a table a dot and takes them apart recursively: a key of a million dots would end the
// process. Brackets it limits itself.
std::optional<Place> too_deep(std::string_view text) {
  int line = 1;
  int column = 0;
  int dots = 0;
  char quote = 0;
  bool comment = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    ++column;
    if (c == '\n') {
      ++line;
      column = dots = 0;
      quote = 0;
      comment = false;
    } else if (comment) {
      continue;
    } else if (quote != 0) {
      if (c == '\\' && quote == '"') {
        if (i + 1 < text.size() && text[i + 1] != '\n') ++i;
      } else if (c == quote) {
        quote = 0;
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      comment = true;
    } else if (c == ',' || c == '=') {
      dots = 0;
    } else if (c == '.' && ++dots > kDeepest) {
      return Place{0, line, column};
    }
  }
  return std::nullopt;
}

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// Column, from 1 and in code points, of byte `at`.
int column_of(const std::string& text, size_t at) {
  int column = 1;
  for (size_t i = 0; i < at && i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) ++column;
  }
  return column;
}

std::vector<std::string> split_path(const std::string& text) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (true) {
    const size_t dot = text.find('.', begin);
    parts.push_back(trimmed(text.substr(begin, dot == std::string::npos ? dot : dot - begin)));
    if (dot == std::string::npos) return parts;
    begin = dot + 1;
  }
}

void shift(TomlNode& node, Place place, const std::string& argument) {
  node.place = place;
  node.argument = argument;
  for (TomlNode& item : node.list) shift(item, place, argument);
  for (TomlNode::Entry& entry : node.table) {
    entry.place = place;
    shift(entry.value, place, argument);
  }
}

}  // namespace

TomlNode parse_toml(std::string_view text, Problems& problems) {
  if (const std::optional<Place> place = too_deep(text)) {
    problems.add(*place, fmt::format("a key of more than {} dots", kDeepest));
    return {};
  }
  try {
    return convert(toml::parse(text), 0);
  } catch (const toml::parse_error& error) {
    problems.add(place_of(error.source(), 0), fmt::format("not valid TOML: {}", error.description()));
    return {};
  }
}

Override parse_override(const std::string& argument, int source, Problems& problems) {
  const auto refuse = [&](size_t at, std::string message) {
    problems.add({source, 1, column_of(argument, at)}, std::move(message));
    return Override{};
  };
  const size_t equals = argument.find('=');
  if (equals == std::string::npos) {
    return refuse(argument.size(), fmt::format("expected section.key=value, found no `=` in `{}`", argument));
  }
  Override out;
  out.path = split_path(argument.substr(0, equals));
  if (out.path.size() > kDeepest) return refuse(0, fmt::format("a key of more than {} dots", kDeepest));
  for (const std::string& name : out.path) {
    if (name.empty()) return refuse(0, "expected section.key=value, found an empty name left of `=`");
  }
  if (out.path.size() < 2) {
    return refuse(0,
                  fmt::format("expected section.key=value, found no section in front of `{}`", out.path[0]));
  }
  const std::string value = trimmed(argument.substr(equals + 1));
  const size_t at = std::min(argument.find_first_not_of(" \t", equals + 1), argument.size());
  const Place place{source, 1, column_of(argument, at)};
  const bool looks_like_toml =
      !value.empty() && std::string_view("\"'[{").find(value[0]) != std::string_view::npos;
  if (too_deep(value)) return refuse(at, fmt::format("a key of more than {} dots", kDeepest));
  try {
    const toml::table table = toml::parse("v = " + value + "\n");
    if (table.size() != 1) return refuse(at, "expected one value, found several");
    out.value = convert(*table.get("v"), source);
  } catch (const toml::parse_error& error) {
    if (looks_like_toml) return refuse(at, fmt::format("not a valid TOML value: {}", error.description()));
    out.value = TomlNode::of(value);
  }
  shift(out.value, place, value);
  return out;
}

}  // namespace penstock
