#include "trainer/job/read_job.h"

#include <utility>

#include "trainer/job/job_keys.h"
#include "trainer/job/job_reader.h"
#include "trainer/job/resolve.h"
#include "trainer/job/text_file.h"
#include "trainer/job/toml_source.h"

namespace penstock {
namespace {

// Puts the value where its path says; a table in between that is missing, or is no table, is made anew.
void apply(const Override& change, TomlNode& document) {
  TomlNode* at = &document;
  for (size_t i = 0; i < change.path.size(); ++i) {
    if (at->kind != TomlNode::Kind::table) {
      *at = TomlNode::empty_table();
      at->place = change.value.place;
    }
    const std::string& name = change.path[i];
    TomlNode* next = at->find(name);
    if (next == nullptr) {
      at->table.push_back({name, {change.value.place.source, 1, 1}, {}});
      next = &at->table.back().value;
      if (i + 1 < change.path.size()) *next = TomlNode::empty_table();
      // A section that only `--set` opened has no header to point at.
      if (i > 0) next->place = change.value.place;
    }
    at = next;
  }
  *at = change.value;
}

}  // namespace

Job parse_job(std::string_view text, const std::string& name, const std::vector<std::string>& overrides,
              const Launch& launch) {
  Problems problems(name, text, overrides);
  TomlNode document = parse_toml(text, problems);
  std::vector<Override> changes;
  for (size_t i = 0; i < overrides.size(); ++i) {
    changes.push_back(parse_override(overrides[i], static_cast<int>(i) + 1, problems));
  }
  // Without a document every key would seem to be missing.
  if (document.kind == TomlNode::Kind::none) problems.throw_if_any();
  for (const Override& change : changes) {
    if (!change.path.empty()) apply(change, document);
  }
  Job job;
  const GivenKeys given = read_values(document, job, problems);
  const int64_t shared_ranks = job.parallel.data == 0 ? launch.ranks : 0;
  resolve(job, given, launch);
  check_across(job, given, shared_ranks, problems);
  refuse_not_yet(job, given, problems);
  problems.throw_if_any();
  return job;
}

Job read_job(const std::filesystem::path& file, const std::vector<std::string>& overrides,
             const Launch& launch) {
  return parse_job(read_text_file(file, "job file"), file.string(), overrides, launch);
}

Job parse_job_values(std::string_view text, const std::string& name) {
  Problems problems(name, text, {});
  TomlNode document = parse_toml(text, problems);
  problems.throw_if_any();
  Job job;
  read_values(document, job, problems);
  problems.throw_if_any();
  return job;
}

}  // namespace penstock
