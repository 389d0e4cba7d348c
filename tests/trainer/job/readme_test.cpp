// The job file that the README explains is the one that the quickstart trains.
#include <fstream>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <toml++/toml.h>

#include "trainer/job/read_job.h"

namespace penstock {
namespace {

// The indented lines below the heading "A job file", without their indent.
std::string job_in_readme() {
  std::ifstream readme(PENSTOCK_SOURCE_DIR "/README.md");
  std::string text;
  bool inside = false;
  for (std::string line; std::getline(readme, line);) {
    if (line.rfind("## ", 0) == 0) inside = line == "## A job file";
    if (inside && (line.empty() || line.rfind("    ", 0) == 0))
      text += line.empty() ? "\n" : line.substr(4) + "\n";
  }
  return text;
}

std::string as_text(toml::node_view<const toml::node> node) {
  std::ostringstream text;
  text << node;
  return text.str();
}

TEST(Readme, ItsJobIsAPartOfTheQuickstarts) {
  const std::string text = job_in_readme();
  EXPECT_NO_THROW(parse_job(text, "README.md", {}));
  const toml::table shown = toml::parse(text);
  const toml::table used = toml::parse_file(PENSTOCK_SOURCE_DIR "/configs/quickstart.toml");
  int keys = 0;
  for (const auto& [section, table] : shown) {
    for (const auto& [key, value] : *table.as_table()) {
      EXPECT_EQ(as_text(shown[section][key]), as_text(used[section][key]))
          << std::string(section) << "." << std::string(key);
      ++keys;
    }
  }
  EXPECT_GE(keys, 14);
}

}  // namespace
}  // namespace penstock
