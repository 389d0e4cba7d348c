#include "trainer/job/job_keys.h"

#include "trainer/job/section_collector.h"

namespace penstock {
namespace key_detail {

TomlNode load_fields(const std::vector<Key>& fields) {
  TomlNode out = TomlNode::empty_table();
  for (const Key& field : fields) {
    TomlNode value = field.value();
    if (value.kind != TomlNode::Kind::none) out.table.push_back({field.name, {}, std::move(value)});
  }
  return out;
}

void store_fields(const std::vector<Key>& fields, const TomlNode& node, const std::string& shorthand) {
  for (const Key& field : fields) {
    if (node.kind != TomlNode::Kind::table) {
      if (field.name == shorthand) field.assign(node);
    } else if (const TomlNode* value = node.find(field.name)) {
      field.assign(*value);
    }
  }
}

TomlNode load_map(const StringMap& map) {
  TomlNode out = TomlNode::empty_table();
  for (const auto& [name, value] : map) out.table.push_back({name, {}, TomlNode::of(value)});
  return out;
}

StringMap store_map(const TomlNode& node) {
  StringMap out;
  for (const TomlNode::Entry& entry : node.table) {
    out[entry.key] = entry.value.kind == TomlNode::Kind::text ? entry.value.text : to_text(entry.value);
  }
  return out;
}

}  // namespace key_detail

std::vector<SectionKeys> keys_of(Job& job) {
  SectionCollector collector;
  job.describe(collector);
  return collector.take();
}

const SectionKeys* find_section(const std::vector<SectionKeys>& sections, const std::string& name) {
  for (const SectionKeys& section : sections) {
    if (section.name == name) return &section;
  }
  return nullptr;
}

const Key* find_key(const SectionKeys& section, const std::string& name) {
  for (const Key& key : section.keys) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

}  // namespace penstock
