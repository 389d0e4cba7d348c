// Limits, alarms and their causes in words and as JSON.
#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "trainer/budget/limits.h"

namespace penstock::budget {

using accounting::Culprit;
using accounting::Part;
using nlohmann::json;

namespace {

constexpr size_t most_named = 3;

double share(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

// Idle time by cause, the largest first, without what rounds to nothing.
std::vector<std::pair<Part, double>> idle_causes(const Attribution& why) {
  std::vector<std::pair<Part, double>> causes;
  for (size_t at = accounting::first_idle_part; at < accounting::part_count; ++at) {
    const auto part = static_cast<Part>(at);
    if (share(why.parts[part], why.step) >= 0.0005) causes.emplace_back(part, why.parts[part]);
  }
  std::stable_sort(causes.begin(), causes.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return causes;
}

std::string name_of(const Culprit& root) {
  return root.to < 0 ? fmt::format("rank {}", root.rank) : fmt::format("link {}->{}", root.rank, root.to);
}

}  // namespace

std::string text_of(Figure figure, double value) {
  switch (figure) {
    case Figure::bubble_ratio:
    case Figure::stage_imbalance:
      return fmt::format("{:.1f} %", 100 * value);
    case Figure::drain:
    case Figure::step_p95:
      return fmt::format("{:.4g} ms", in_key_unit(figure, value));
    case Figure::amplification:
      return fmt::format("{:.2f} x", value);
  }
  return "?";
}

std::string text_of(const Attribution& why) {
  std::string text = fmt::format("  idle {:.1f} % of the step of {:.4g} ms",
                                 100 * share(why.parts.idle(), why.step), 1e3 * why.step);
  size_t named = 0;
  for (const auto& [part, seconds] : idle_causes(why)) {
    text += fmt::format("{}{} {:.1f} %", named == 0 ? ": " : ", ", accounting::name_of(part),
                        100 * share(seconds, why.step));
    if (++named == most_named) break;
  }
  text += "\n  waited for: ";
  if (why.roots.empty()) text += "nobody";
  for (size_t i = 0; i < std::min(most_named, why.roots.size()); ++i) {
    text += fmt::format("{}{} ({:.0f} %{})", i == 0 ? "" : ", ", name_of(why.roots[i]),
                        100 * share(why.roots[i].seconds, why.waits), i == 0 ? " of all waiting" : "");
  }
  return text + fmt::format("; slowest: rank {}, stage {}\n", why.slowest_rank, why.slowest_stage);
}

json json_of(const Attribution& why) {
  json idle = json::object();
  for (const auto& [part, seconds] : idle_causes(why))
    idle[fmt::format("{}_ms", accounting::name_of(part))] = 1e3 * seconds;
  json roots = json::array();
  for (size_t i = 0; i < std::min(most_named, why.roots.size()); ++i) {
    roots.push_back({{"root_rank", why.roots[i].rank},
                     {"root_ms", 1e3 * why.roots[i].seconds},
                     {"share", share(why.roots[i].seconds, why.waits)}});
    if (why.roots[i].to >= 0) roots.back()["root_link_to"] = why.roots[i].to;
  }
  return {{"step_ms", 1e3 * why.step},
          {"idle_ratio", share(why.parts.idle(), why.step)},
          {"idle", idle},
          {"waited_for", roots},
          {"slowest_rank", why.slowest_rank},
          {"slowest_stage", why.slowest_stage}};
}

std::string text_of(const Alarm& alarm, const std::string& will) {
  const Figure figure = alarm.limit.figure;
  const std::string windows =
      alarm.windows == 1 ? "1 window" : fmt::format("{} windows in a row", alarm.windows);
  return fmt::format("ALARM {} is {}, {:.2f} times its limit of {}, in {} since step {} (now {})\n",
                     name_of(figure), text_of(figure, alarm.found), alarm.found / alarm.limit.value,
                     text_of(figure, alarm.limit.value), windows, alarm.since_step, alarm.last_step) +
         text_of(alarm.why) + "  next: " + will + "\n";
}

json json_of(const Alarm& alarm) {
  const Figure figure = alarm.limit.figure;
  json made = json_of(alarm.why);
  made["limit"] = name_of(figure);
  made["limit_value"] = in_key_unit(figure, alarm.limit.value);
  made["found"] = in_key_unit(figure, alarm.found);
  made["windows"] = alarm.windows;
  made["since_step"] = alarm.since_step;
  return made;
}

}  // namespace penstock::budget
