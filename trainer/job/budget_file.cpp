#include "trainer/job/budget_file.h"

#include "trainer/job/job_reader.h"
#include "trainer/job/section_collector.h"
#include "trainer/job/text_file.h"
#include "trainer/job/toml_source.h"

namespace penstock {

BubbleBudgetSection parse_budget(std::string_view text, const std::string& name) {
  Problems problems(name, text, {}, "bubble budget");
  TomlNode document = parse_toml(text, problems);
  problems.throw_if_any();
  BubbleBudgetSection budget;
  SectionCollector collector;
  collector.section("bubble_budget", budget);
  read_sections(document, collector.take(), problems);
  problems.throw_if_any();
  return budget;
}

BubbleBudgetSection read_budget(const std::filesystem::path& file) {
  return parse_budget(read_text_file(file, "bubble budget"), file.string());
}

}  // namespace penstock
