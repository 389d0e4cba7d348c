#include "trainer/commands/byte_size.h"

#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace penstock::commands {
namespace {

constexpr double kibi = 1024.0;
constexpr std::array<std::pair<std::string_view, double>, 10> units{{{"", 1},
                                                                     {"B", 1},
                                                                     {"KB", 1e3},
                                                                     {"MB", 1e6},
                                                                     {"GB", 1e9},
                                                                     {"TB", 1e12},
                                                                     {"KiB", kibi},
                                                                     {"MiB", kibi* kibi},
                                                                     {"GiB", kibi* kibi* kibi},
                                                                     {"TiB", kibi* kibi* kibi* kibi}}};

}  // namespace

std::optional<uint64_t> byte_size(const std::string& text) {
  double value = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value, std::chars_format::fixed);
  if (error != std::errc()) return {};
  const std::string_view unit(end, static_cast<size_t>(last - end));
  for (const auto& [name, factor] : units) {
    const double bytes = value * factor;
    if (unit == name && bytes >= 1 && bytes < 9e18) return static_cast<uint64_t>(bytes);
  }
  return {};
}

CLI::Validator is_byte_size() {
  const auto check = [](std::string& text) -> std::string {
    if (byte_size(text)) return "";
    return fmt::format("\"{}\": expected a size like 5GB, 500MB or 2GiB", text);
  };
  return {check, ""};
}

}  // namespace penstock::commands
