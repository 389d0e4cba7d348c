#pragma once

#include <span>
#include <string>

namespace penstock {

/// A name of another trainer's configuration.
struct ForeignName {
  const char* name;     ///< "key" or "section.key", lower case, underscores
  const char* trainer;  ///< whose name it is
  const char* here;     ///< what to write here: "`parallel.pipeline`", or why there is no such key
};

/// Looks a key up, first with its section. Case, `-` for `_`, and leading dashes do not count.
const ForeignName* find_foreign_key(const std::string& section, const std::string& key);

/// All keys in the table.
std::span<const ForeignName> foreign_keys();

/// All sections in the table.
std::span<const ForeignName> foreign_sections();

/// docs/coming-from.md: both tables, by trainer.
std::string foreign_names_page();

/// Looks a section up.
const ForeignName* find_foreign_section(const std::string& section);

}  // namespace penstock
