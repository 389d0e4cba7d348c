#include "trainer/commands/number_check.h"

#include <charconv>
#include <optional>
#include <string>

#include <fmt/format.h>

namespace penstock::commands {
namespace {

// The number that is all of the text.
template <typename Number>
std::optional<Number> parse(const std::string& text) {
  Number value{};
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  return error == std::errc() && end == last ? std::optional(value) : std::nullopt;
}

template <typename Number>
CLI::Validator number(const char* kind, Number low, Number high) {
  const auto check = [=](std::string& text) -> std::string {
    const std::optional<Number> value = parse<Number>(text);
    if (value && *value >= low && *value <= high) return "";
    return fmt::format("\"{}\": expected a {} from {} to {}", text, kind, low, high);
  };
  return {check, ""};
}

}  // namespace

CLI::Validator whole_number(int64_t low, int64_t high) {
  return number<int64_t>("whole number", low, high);
}

CLI::Validator real_number(double low, double high) {
  return number<double>("number", low, high);
}

}  // namespace penstock::commands
