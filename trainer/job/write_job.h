#pragma once

#include <string>
#include <vector>

#include "trainer/job/job.h"

namespace penstock {

/// The job as a job file with every key, defaults included. Parses back to an equal Job, and so reproduces
/// the run.
std::string to_toml(const Job& job);

/// One key whose values differ; values as TOML writes them, "none" where there is none.
struct Difference {
  std::string key;  ///< "section.key"
  std::string before;
  std::string after;
};

/// Every key in which two resolved jobs differ, in the order of the job file.
std::vector<Difference> difference(const Job& before, const Job& after);

/// Those differences that make a resumed run another run: a run may go on with other steps, logs, schedules
/// of evaluation and saving, parallelism, transport and recomputation, but not with another model, other
/// data, another batch, optimizer, precision or seed. A learning-rate decay that followed run.steps by
/// default may keep following.
std::vector<Difference> refused_on_resume(const Job& stored, const Job& now);

/// Those differences that make it another model than the stored job's, whose parameters were imported and
/// never trained here: all of [model] but what only training reads.
std::vector<Difference> refused_after_import(const Job& stored, const Job& now);

/// "  learning_rate.max: 0.001 → 0.002", a line each.
std::string to_text(const std::vector<Difference>& differences);

/// The job file's reference as Markdown, from the descriptions of the keys.
std::string job_file_page();

struct SectionKeys;
/// A table of keys for every section, as Markdown.
std::string key_tables(const std::vector<SectionKeys>& sections);

}  // namespace penstock
