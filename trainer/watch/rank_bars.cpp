// Where the ranks' time goes: a bar each.
#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "trainer/watch/panel.h"

namespace penstock::watch {
namespace {

using run_view::Cause;
using run_view::CauseSums;
using run_view::RankMean;

constexpr int kLeastBar = 10;

/// One rank, or neighbours together.
struct Row {
  std::string label;
  double step = 0;
  CauseSums causes;
  bool slowest = false;
};

std::string label_of(const RankMean& rank, bool replicas) {
  return replicas ? fmt::format("{}.{}", rank.replica, rank.rank) : fmt::format("{}", rank.rank);
}

std::vector<Row> rows_of(const std::vector<RankMean>& ranks, int rows) {
  const bool replicas = !ranks.empty() && ranks.back().replica > 0;
  const size_t each = (ranks.size() + static_cast<size_t>(rows) - 1) / static_cast<size_t>(rows);
  std::vector<Row> made;
  for (size_t begin = 0; begin < ranks.size(); begin += each) {
    const size_t end = std::min(begin + each, ranks.size());
    Row row;
    row.label = label_of(ranks[begin], replicas);
    if (end - begin > 1) row.label += "-" + label_of(ranks[end - 1], replicas);
    for (size_t i = begin; i < end; ++i) {
      const double share = 1 / static_cast<double>(end - begin);
      row.step += share * ranks[i].step;
      row.causes.add(ranks[i].causes, share);
      row.slowest = row.slowest || ranks[i].slowest;
    }
    made.push_back(std::move(row));
  }
  return made;
}

double share(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

void add_bar(const Row& row, int columns, const View& view, Line& line) {
  // Ends of the causes are rounded, not their lengths: then the lengths add up.
  double sum = 0;
  int drawn = 0;
  for (size_t at = 0; at < run_view::cause_count; ++at) {
    const auto cause = static_cast<Cause>(at);
    sum += row.causes[cause];
    const int end = std::min(columns, static_cast<int>(std::lround(share(sum, row.step) * columns)));
    const int length = end - drawn;
    if (length <= 0) continue;
    drawn = end;
    const run_view::CauseLook& look = look_of(cause);
    std::string text(static_cast<size_t>(length), view.abilities.colour ? ' ' : look.key);
    const std::string full = fmt::format("{} {:.0f}", look.name, 100 * share(row.causes[cause], row.step));
    // Where letters make the bar, some have to be left beside its label.
    const int around = view.abilities.colour ? 2 : 6;
    const std::string label =
        static_cast<int>(full.size()) + around <= length ? full : std::string(look.name);
    if (static_cast<int>(label.size()) + around <= length) {
      const size_t from = (text.size() - label.size()) / 2;
      if (view.abilities.colour) {
        text.replace(from, label.size(), label);
      } else if (label.size() > 1) {
        text.replace(from - 1, label.size() + 2, " " + label + " ");
      }
    }
    line.add(text, cause);
  }
  line.pad_to(line.columns() + columns - drawn);
}

// "wait 21.3  drain 10.2": the largest first.
std::string causes_text(const Row& row, size_t most) {
  std::vector<std::pair<double, Cause>> idle;
  for (size_t at = run_view::first_idle_cause; at < run_view::cause_count; ++at) {
    const auto cause = static_cast<Cause>(at);
    if (share(row.causes[cause], row.step) >= 0.005) idle.emplace_back(row.causes[cause], cause);
  }
  std::stable_sort(idle.begin(), idle.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (size_t i = 0; i < std::min(most, idle.size()); ++i)
    text += fmt::format("  {} {:.1f}", look_of(idle[i].second).name, 100 * share(idle[i].first, row.step));
  return text;
}

// Of a cause's entry in the legend. A bar of letters says F, I, W and R itself.
int entry_columns(Cause cause, const View& view) {
  const int name = static_cast<int>(std::string_view(look_of(cause).name).size());
  if (view.abilities.colour) return name == 1 ? 5 : 5 + name;
  return name == 1 ? 0 : 4 + name;
}

}  // namespace

std::vector<Line> rank_bars(const std::vector<RankMean>& ranks, const View& view, int rows) {
  std::vector<Line> lines;
  if (ranks.empty() || rows <= 0) return lines;
  const std::vector<Row> all = rows_of(ranks, rows);
  size_t label = 0;
  for (const Row& row : all) label = std::max(label, row.label.size());
  const char* name = view.columns >= 60 ? "rank " : "";
  const size_t named_causes = view.columns >= 120 ? 4 : view.columns >= 76 ? 2 : 0;
  // " idle 41.9 %", and each cause takes up to 17 columns.
  const int tail = 13 + 17 * static_cast<int>(named_causes);
  for (const Row& row : all) {
    Line line;
    line.add(fmt::format("{}{:>{}}", name, row.label, label), row.slowest ? Ink::warning : Ink::plain);
    line.add(row.slowest ? (view.abilities.utf8 ? "▶" : "*") : " ", Ink::warning);
    add_bar(row, std::max(kLeastBar, view.columns - line.columns() - tail), view, line);
    line.add(fmt::format(" idle {:>4.1f} %", 100 * share(row.causes.idle(), row.step)), Ink::strong);
    line.add(causes_text(row, named_causes), Ink::dim);
    lines.push_back(std::move(line));
  }
  return lines;
}

Line legend(const std::vector<RankMean>& ranks, const View& view) {
  Line line;
  CauseSums all;
  double step = 0;
  bool slowest = false;
  for (const RankMean& rank : ranks) {
    all.add(rank.causes);
    step += rank.step;
    slowest = slowest || rank.slowest;
  }
  if (slowest) line.add(view.abilities.utf8 ? "▶ " : "* ", Ink::warning).add("slowest", Ink::dim);
  // Where not all have room, the smallest are left out.
  std::vector<Cause> causes;
  for (size_t at = 0; at < run_view::cause_count; ++at) {
    const auto cause = static_cast<Cause>(at);
    if (share(all[cause], step) >= 0.005 && entry_columns(cause, view) > 0) causes.push_back(cause);
  }
  std::stable_sort(causes.begin(), causes.end(), [&](Cause a, Cause b) { return all[a] > all[b]; });
  int room = view.columns - line.columns();
  std::erase_if(causes, [&](Cause cause) {
    const int columns = entry_columns(cause, view);
    if (columns > room) return true;
    room -= columns;
    return false;
  });
  std::sort(causes.begin(), causes.end());
  for (const Cause cause : causes) {
    const run_view::CauseLook& look = look_of(cause);
    const std::string name(look.name);
    if (view.abilities.colour) {
      line.add("  ").add(name.size() == 1 ? fmt::format(" {} ", name) : "  ", cause);
      if (name.size() > 1) line.add(" " + name, Ink::dim);
    } else {
      line.add(fmt::format("  {} {}", look.key, name));
    }
  }
  return line;
}

}  // namespace penstock::watch
