#pragma once

#include <string>
#include <string_view>

#include "trainer/job/problems.h"
#include "trainer/job/toml_node.h"

namespace penstock {

/// Parses a whole TOML document. A syntax error is added to `problems`, and the result is then a node of kind
/// none.
TomlNode parse_toml(std::string_view text, Problems& problems);

/// A `--set` argument, taken apart.
struct Override {
  std::vector<std::string> path;  ///< section, key, and deeper names
  TomlNode value;
};

/// Parses `section.key=value`. The value is TOML; what is no TOML value and does not start like one is a bare
/// string
/// (`--set run.name=first`). `source`: its number, from 1. A problem is added to `problems`, and path is then
/// empty.
Override parse_override(const std::string& argument, int source, Problems& problems);

}  // namespace penstock
