#pragma once

#include <string>
#include <vector>

#include "trainer/job/job.h"
#include "trainer/job/key.h"

namespace penstock {

/// A section's name and its keys, bound to one Job's members.
struct SectionKeys {
  std::string name;
  std::vector<Key> keys;
};

/// Every key of every section, in the order of the job file. The keys refer to `job`, which must outlive
/// them.
std::vector<SectionKeys> keys_of(Job& job);

/// The section's or key's entry, or nullptr.
const SectionKeys* find_section(const std::vector<SectionKeys>& sections, const std::string& name);
const Key* find_key(const SectionKeys& section, const std::string& name);

}  // namespace penstock
