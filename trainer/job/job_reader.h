#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "trainer/job/job.h"
#include "trainer/job/job_keys.h"
#include "trainer/job/problems.h"
#include "trainer/job/toml_node.h"

namespace penstock {

/// Which keys a job's author gave, where, and which of them are unusable.
class GivenKeys {
 public:
  void give(const std::string& path, Place place) { places_[path] = place; }
  void open_section(const std::string& name, Place place) { sections_[name] = place; }
  void spoil(const std::string& path) { spoilt_.insert(path); }

  bool has_section(const std::string& name) const { return sections_.count(name) > 0; }
  bool given(const std::string& path) const { return places_.count(path) > 0; }
  /// Wrong or missing: nothing more can be said about it.
  bool spoilt(const std::string& path) const { return spoilt_.count(path) > 0; }

  /// Where the key stands; else its section's header; else nowhere.
  Place place_of(const std::string& path) const;

 private:
  std::map<std::string, Place> places_;
  std::map<std::string, Place> sections_;
  std::set<std::string> spoilt_;
};

/// Stores every value of `document` that is right by itself into `job`; everything else becomes a problem:
/// unknown and foreign names, wrong types, values out of range, missing keys.
GivenKeys read_values(TomlNode& document, Job& job, Problems& problems);
/// The same into whatever the sections' keys are bound to.
GivenKeys read_sections(TomlNode& document, const std::vector<SectionKeys>& sections, Problems& problems);

/// The problem text of a name that no section (`section` empty) or not this section has.
std::string unknown_name_text(const std::vector<SectionKeys>& sections, const std::string& section,
                              const std::string& name);

}  // namespace penstock
