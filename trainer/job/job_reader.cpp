#include "trainer/job/job_reader.h"

#include <fmt/format.h>

#include "parallel/schedule/nearest.h"
#include "trainer/job/foreign_names.h"

namespace penstock {
namespace {

std::vector<std::string> names_of(const std::vector<SectionKeys>& sections) {
  std::vector<std::string> names;
  for (const SectionKeys& section : sections) names.push_back(section.name);
  return names;
}

std::vector<std::string> names_of(const SectionKeys& section) {
  std::vector<std::string> names;
  for (const Key& key : section.keys) names.push_back(key.name);
  return names;
}

// "`run.seed`" or "`data.tokenizer` or …" for sections that have a key of this very name.
std::string homes_of(const std::vector<SectionKeys>& sections, const std::string& name) {
  std::string homes;
  for (const SectionKeys& section : sections) {
    if (find_key(section, name) == nullptr) continue;
    homes += fmt::format("{}`{}.{}`", homes.empty() ? "" : " or ", section.name, name);
  }
  return homes;
}

std::string nearest_elsewhere(const std::vector<SectionKeys>& sections, const std::string& name) {
  std::vector<std::string> all;
  for (const SectionKeys& section : sections) {
    for (const Key& key : section.keys) all.push_back(key.name);
  }
  const std::string near = nearest(name, all);
  return near.empty() ? "" : homes_of(sections, near);
}

std::string foreign_text(const ForeignName& foreign) {
  const std::string here = foreign.here;
  const bool names_something = here.front() == '`' || here.front() == '[';
  return fmt::format("a name of {}; {}{}", foreign.trainer, names_something ? "here it is " : "", here);
}

std::string unknown_section_text(const std::vector<SectionKeys>& sections, const std::string& name,
                                 bool is_table) {
  const std::string shown = is_table ? fmt::format("[{}]", key_text(name)) : key_text(name);
  if (!is_table) {
    const std::string homes = homes_of(sections, name);
    if (!homes.empty()) return fmt::format("{}: a key outside any section; here it is {}", shown, homes);
    if (const ForeignName* foreign = find_foreign_key("", name)) {
      return fmt::format("{}: {}", shown, foreign_text(*foreign));
    }
  } else if (const ForeignName* foreign = find_foreign_section(name)) {
    return fmt::format("{}: {}", shown, foreign_text(*foreign));
  }
  const std::string near = nearest(name, names_of(sections));
  if (is_table && !near.empty()) return fmt::format("{}: unknown section; did you mean [{}]?", shown, near);
  if (!is_table) {
    const std::string elsewhere = nearest_elsewhere(sections, name);
    if (!elsewhere.empty()) {
      return fmt::format("{}: unknown key, outside any section; did you mean {}?", shown, elsewhere);
    }
    return fmt::format("{}: unknown key, outside any section", shown);
  }
  return fmt::format("{}: unknown section; there are {}", shown, fmt::join(names_of(sections), ", "));
}

void read_section(const std::vector<SectionKeys>& sections, const SectionKeys& section, TomlNode& table,
                  GivenKeys& given, Problems& problems) {
  for (TomlNode::Entry& entry : table.table) {
    const Key* key = find_key(section, entry.key);
    const std::string path = section.name + "." + entry.key;
    if (key == nullptr) {
      problems.add(entry.place, unknown_name_text(sections, section.name, entry.key));
      continue;
    }
    given.give(path, entry.value.place.line > 0 ? entry.value.place : entry.place);
    if (check_value(*key, entry.value, path, problems)) {
      key->assign(entry.value);
    } else {
      given.spoil(path);
    }
  }
}

// One problem a section names all keys that it lacks.
void report_missing(const SectionKeys& section, GivenKeys& given, Problems& problems) {
  std::string missing;
  for (const Key& key : section.keys) {
    const std::string path = section.name + "." + key.name;
    if (!key.required || given.given(path)) continue;
    given.spoil(path);
    missing += fmt::format("{}{} ({})", missing.empty() ? "" : ", ", key.name, type_text(key));
  }
  if (missing.empty()) return;
  problems.add(given.place_of(section.name + "."),
               fmt::format("[{}]: required, but missing: {}", section.name, missing));
}

}  // namespace

Place GivenKeys::place_of(const std::string& path) const {
  const auto key = places_.find(path);
  if (key != places_.end()) return key->second;
  const auto section = sections_.find(path.substr(0, path.find('.')));
  return section != sections_.end() ? section->second : Place{};
}

std::string unknown_name_text(const std::vector<SectionKeys>& sections, const std::string& section,
                              const std::string& name) {
  const std::string path = section + "." + key_text(name);
  if (const ForeignName* foreign = find_foreign_key(section, name)) {
    return fmt::format("{}: {}", path, foreign_text(*foreign));
  }
  const std::string homes = homes_of(sections, name);
  if (!homes.empty()) return fmt::format("{}: not a key of this section; there is {}", path, homes);
  const SectionKeys* known = find_section(sections, section);
  if (known == nullptr) return fmt::format("{}: unknown key", path);
  const std::string near = nearest(name, names_of(*known));
  if (!near.empty()) return fmt::format("{}: unknown key; did you mean `{}`?", path, near);
  const std::string elsewhere = nearest_elsewhere(sections, name);
  if (!elsewhere.empty()) return fmt::format("{}: unknown key; did you mean {}?", path, elsewhere);
  return fmt::format("{}: unknown key; [{}] has {}", path, section, fmt::join(names_of(*known), ", "));
}

GivenKeys read_values(TomlNode& document, Job& job, Problems& problems) {
  return read_sections(document, keys_of(job), problems);
}

GivenKeys read_sections(TomlNode& document, const std::vector<SectionKeys>& sections, Problems& problems) {
  GivenKeys given;
  for (TomlNode::Entry& entry : document.table) {
    const SectionKeys* section = find_section(sections, entry.key);
    const bool is_table = entry.value.kind == TomlNode::Kind::table;
    if (section == nullptr) {
      problems.add(entry.place, unknown_section_text(sections, entry.key, is_table));
      if (!is_table || find_foreign_section(entry.key) == nullptr) continue;
      // Whoever brings a whole file of another trainer is told about each of its keys at once.
      for (const TomlNode::Entry& foreign : entry.value.table) {
        problems.add(foreign.place, unknown_name_text(sections, entry.key, foreign.key));
      }
    } else if (!is_table) {
      problems.add(entry.value.place,
                   fmt::format("{}: expected a section [{}], found {} ({})", entry.key, entry.key,
                               to_text(entry.value), kind_name(entry.value.kind)));
      for (const Key& key : section->keys) given.spoil(section->name + "." + key.name);
    } else {
      given.open_section(entry.key, entry.value.place);
      read_section(sections, *section, entry.value, given, problems);
    }
  }
  for (const SectionKeys& section : sections) {
    const TomlNode* table = document.find(section.name);
    if (table == nullptr || table->kind == TomlNode::Kind::table) report_missing(section, given, problems);
  }
  return given;
}

}  // namespace penstock
