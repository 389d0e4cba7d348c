#include "trainer/commands/foreign_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace penstock::commands {

void refuse_given(const CLI::App& command, const std::string& why,
                  const std::vector<ForeignOption>& options) {
  std::vector<std::string> given;
  std::vector<std::string> instead;
  for (const ForeignOption& option : options) {
    const CLI::Option* found = command.get_option(option.name);
    if (found->count() == 0) continue;
    given.push_back(option.name);
    if (option.instead.empty()) continue;
    std::string advice = option.instead;
    const size_t place = advice.find("{}");
    if (place != std::string::npos)
      advice.replace(place, 2, fmt::format("{}", fmt::join(found->results(), ",")));
    if (instead.empty() || instead.back() != advice) instead.push_back(advice);
  }
  if (given.empty()) return;
  std::string text = fmt::format("{} would have no effect: {}", fmt::join(given, ", "), why);
  if (!instead.empty()) text += fmt::format("; instead: {}", fmt::join(instead, ", "));
  throw CLI::ValidationError(text);
}

}  // namespace penstock::commands
