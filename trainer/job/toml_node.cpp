#include "trainer/job/toml_node.h"

#include <bit>
#include <utility>

#include <fmt/format.h>

namespace penstock {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\u{:04X}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string number_text(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

TomlNode TomlNode::of(bool value) {
  TomlNode node;
  node.kind = Kind::boolean;
  node.boolean = value;
  return node;
}

TomlNode TomlNode::of(int64_t value) {
  TomlNode node;
  node.kind = Kind::integer;
  node.integer = value;
  return node;
}

TomlNode TomlNode::of(double value) {
  TomlNode node;
  node.kind = Kind::number;
  node.number = value;
  return node;
}

TomlNode TomlNode::of(std::string value) {
  TomlNode node;
  node.kind = Kind::text;
  node.text = std::move(value);
  return node;
}

TomlNode TomlNode::of(const char* value) {
  return of(std::string(value));
}

TomlNode TomlNode::list_of(std::vector<TomlNode> values) {
  TomlNode node;
  node.kind = Kind::list;
  node.list = std::move(values);
  return node;
}

TomlNode TomlNode::empty_table() {
  TomlNode node;
  node.kind = Kind::table;
  return node;
}

TomlNode* TomlNode::find(const std::string& key) {
  for (Entry& entry : table) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

const TomlNode* TomlNode::find(const std::string& key) const {
  for (const Entry& entry : table) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

bool same_value(const TomlNode& a, const TomlNode& b) {
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case TomlNode::Kind::none:
      return true;
    case TomlNode::Kind::boolean:
      return a.boolean == b.boolean;
    case TomlNode::Kind::integer:
      return a.integer == b.integer;
    case TomlNode::Kind::number:
      return std::bit_cast<uint64_t>(a.number) == std::bit_cast<uint64_t>(b.number);
    case TomlNode::Kind::text:
    case TomlNode::Kind::date:
      return a.text == b.text;
    case TomlNode::Kind::list:
      if (a.list.size() != b.list.size()) return false;
      for (size_t i = 0; i < a.list.size(); ++i) {
        if (!same_value(a.list[i], b.list[i])) return false;
      }
      return true;
    case TomlNode::Kind::table:
      if (a.table.size() != b.table.size()) return false;
      for (const TomlNode::Entry& entry : a.table) {
        const TomlNode* other = b.find(entry.key);
        if (other == nullptr || !same_value(entry.value, *other)) return false;
      }
      return true;
  }
  return false;
}

std::string key_text(const std::string& key) {
  const bool bare = !key.empty() && key.find_first_not_of(
                                        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                        "0123456789_-") == std::string::npos;
  return bare ? key : quoted(key);
}

std::string to_text(const TomlNode& node) {
  std::string out;
  switch (node.kind) {
    case TomlNode::Kind::none:
      return "none";
    case TomlNode::Kind::boolean:
      return node.boolean ? "true" : "false";
    case TomlNode::Kind::integer:
      return fmt::format("{}", node.integer);
    case TomlNode::Kind::number:
      return number_text(node.number);
    case TomlNode::Kind::text:
      return quoted(node.text);
    case TomlNode::Kind::date:
      return node.text;
    case TomlNode::Kind::list:
      for (const TomlNode& item : node.list) out += (out.empty() ? "" : ", ") + to_text(item);
      return "[" + out + "]";
    case TomlNode::Kind::table:
      for (const TomlNode::Entry& entry : node.table) {
        out += (out.empty() ? "" : ", ") + key_text(entry.key) + " = " + to_text(entry.value);
      }
      return "{" + out + "}";
  }
  return out;
}

const char* kind_name(TomlNode::Kind kind) {
  switch (kind) {
    case TomlNode::Kind::none:
      return "nothing";
    case TomlNode::Kind::boolean:
      return "bool";
    case TomlNode::Kind::integer:
      return "integer";
    case TomlNode::Kind::number:
      return "float";
    case TomlNode::Kind::text:
      return "string";
    case TomlNode::Kind::date:
      return "date or time";
    case TomlNode::Kind::list:
      return "list";
    case TomlNode::Kind::table:
      return "table";
  }
  return "?";
}

}  // namespace penstock
