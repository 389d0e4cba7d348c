#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "trainer/job/bubble_budget_section.h"

namespace penstock {

/// A file with one section, [bubble_budget], as strict as a job file. JobError with every problem.
BubbleBudgetSection read_budget(const std::filesystem::path& file);
/// The same of a text; `name` stands for the file in messages.
BubbleBudgetSection parse_budget(std::string_view text, const std::string& name);

}  // namespace penstock
