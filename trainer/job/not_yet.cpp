// What the job file can say and this version cannot do. A feature that lands takes its row out of here.
#include <string>

#include <fmt/format.h>

#include "trainer/job/job_keys.h"
#include "trainer/job/resolve.h"

namespace penstock {
namespace {

struct NotYet {
  const char* path;  ///< a key, or a section: all of its keys
  const char* why;
  bool (*refused)(const Job&) = nullptr;  ///< without it: any value but the default
};

constexpr NotYet kNotYet[] = {
    {"precision.compute", "it computes in fp32, bf16 or fp16",
     [](const Job& job) { return job.precision.compute == Precision::fp8; }},
    {"precision.stochastic_rounding", "weights have an fp32 master"},
};

// The row for a key: its own, or its section's.
const NotYet* row_of(const std::string& section, const std::string& path) {
  for (const NotYet& row : kNotYet) {
    if (path == row.path || section == row.path) return &row;
  }
  return nullptr;
}

}  // namespace

std::string not_yet(const std::string& section, const std::string& key) {
  const NotYet* row = row_of(section, section + "." + key);
  return row == nullptr ? "" : row->why;
}

void refuse_not_yet(const Job& job, const GivenKeys& given, Problems& problems) {
  Job copy = job;
  Job initial;
  const std::vector<SectionKeys> sections = keys_of(copy);
  const std::vector<SectionKeys> defaults = keys_of(initial);
  for (size_t s = 0; s < sections.size(); ++s) {
    for (size_t k = 0; k < sections[s].keys.size(); ++k) {
      const Key& key = sections[s].keys[k];
      const std::string path = sections[s].name + "." + key.name;
      const NotYet* row = row_of(sections[s].name, path);
      if (row == nullptr || given.spoilt(path)) continue;
      const TomlNode value = key.value();
      const bool refused =
          row->refused != nullptr ? row->refused(job) : !same_value(value, defaults[s].keys[k].value());
      if (!refused) continue;
      problems.add(given.place_of(path),
                   fmt::format("{} = {}: not in this version; {}", path, to_text(value), row->why));
    }
  }
}

}  // namespace penstock
