#include <string>

#include <fmt/format.h>

#include "trainer/job/job_keys.h"
#include "trainer/job/markdown_cell.h"
#include "trainer/job/resolve.h"
#include "trainer/job/write_job.h"

namespace penstock {
namespace {

constexpr const char* kIntroduction = R"(# The job file: every key

<!-- Generated from the sections' own descriptions: `penstock job --docs > docs/job-file.md`. -->

A job file is TOML, and strict: an unknown key, a wrong type or a value out of range is refused, all problems at once,
each with its line and column. Sizes are counts unless a unit stands in the name. Default "–" means required. Any key
can be set on the command line: `--set section.key=value`, in TOML's notation; a plain word needs no quotes.

The run folder holds the resolved job, `job.toml`: every key with its value. It is itself a job file and reproduces
the run.
)";

void add_row(const Key& key, const std::string& name, const std::string& fallback, const std::string& missing,
             std::string& page) {
  const std::string note =
      missing.empty() ? "" : fmt::format("; **not all of it in this version: {}**", missing);
  page += fmt::format("| `{}` | {} | {} | {}{} |\n", name, markdown_cell(type_text(key)),
                      markdown_cell(fallback), markdown_cell(key.help), note);
}

std::string default_cell(const Key& key) {
  const std::string text = default_text(key);
  const bool value = !key.required && key.derived.empty() && key.default_note.empty() && text != "none";
  return value ? "`" + text + "`" : text;
}

}  // namespace

std::string job_file_page() {
  Job job;
  return kIntroduction + key_tables(keys_of(job));
}

std::string key_tables(const std::vector<SectionKeys>& sections) {
  std::string page;
  for (const SectionKeys& section : sections) {
    page += fmt::format("\n## [{}]\n\n| Key | Type, range | Default | Meaning |\n|---|---|---|---|\n",
                        section.name);
    for (const Key& key : section.keys) {
      add_row(key, key.name, default_cell(key), not_yet(section.name, key.name), page);
      for (const Key& field : key.fields) {
        const std::string name = fmt::format("{}{}.{}", key.name, key.list ? "[]" : "", field.name);
        add_row(field, name, field.required ? "–" : field.default_note, "", page);
      }
    }
  }
  return page;
}

}  // namespace penstock
