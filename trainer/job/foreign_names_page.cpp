#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "trainer/job/foreign_names.h"
#include "trainer/job/markdown_cell.h"

namespace penstock {
namespace {

constexpr const char* kIntroduction = R"(# Coming from another trainer

<!-- Generated from what the job reader recognises: `penstock job --coming-from > docs/coming-from.md`. -->

Their names, and what is written here. A job file that has one of them is refused with the same answer, at its line and
column; so a configuration can be pasted and mended by what the program says. `-` for `_`, leading dashes and case do
not count.
)";

void add_tables(std::span<const ForeignName> names, const std::string& what, std::string& page) {
  std::vector<std::string> order;
  std::map<std::string, std::string> rows;
  for (const ForeignName& each : names) {
    std::string& table = rows[each.trainer];
    if (table.empty()) order.emplace_back(each.trainer);
    table += fmt::format("| `{}` | {} |\n", each.name, markdown_cell(each.here));
  }
  for (const std::string& trainer : order) {
    page += fmt::format("\n### {}\n\n| {} | Here |\n|---|---|\n{}", trainer, what, rows[trainer]);
  }
}

}  // namespace

std::string foreign_names_page() {
  std::string page = kIntroduction;
  page += "\n## Keys\n";
  add_tables(foreign_keys(), "Key", page);
  page += "\n## Sections\n";
  add_tables(foreign_sections(), "Section", page);
  return page;
}

}  // namespace penstock
