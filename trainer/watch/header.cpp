// What runs, where, and how far it is.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "trainer/report/progress_bar.h"
#include "trainer/report/rate_text.h"
#include "trainer/report/timestamp.h"
#include "trainer/watch/panel.h"

namespace penstock::watch {
namespace {

using run_view::Life;
using run_view::RunState;

constexpr int kLeastBar = 8;
constexpr int kWidestBar = 40;

Ink ink_of(const RunState& run) {
  switch (run.liveness().life) {
    case Life::not_begun:
      return Ink::dim;
    case Life::alive:
      return Ink::good;
    case Life::silent:
    case Life::killed:
      return Ink::alarm;
    case Life::ended:
      break;
  }
  const std::string& state = run.status()->state;
  return state == "finished" ? Ink::good : state == "stopped" ? Ink::warning : Ink::alarm;
}

std::string bar(double share, int columns, const Abilities& abilities) {
  const int full = std::clamp(static_cast<int>(share * columns), 0, columns);
  std::string text;
  for (int i = 0; i < columns; ++i) {
    const bool done = i < full;
    text += abilities.utf8 ? (done ? "━" : "─") : (done ? "#" : "-");
  }
  return text;
}

// "09:39:33Z", with the day if it is another one.
std::string clock_text(std::chrono::system_clock::time_point at, std::chrono::system_clock::time_point now) {
  const std::string text = report::timestamp(at);
  const bool today = text.substr(0, 10) == report::timestamp(now).substr(0, 10);
  return today ? text.substr(11, 8) + "Z" : text.substr(0, 10) + " " + text.substr(11, 5) + "Z";
}

// The parts of the tail, most telling first.
std::vector<std::string> tail_of(const RunState& run, const View& view) {
  std::vector<std::string> parts;
  if (const std::optional<double> left = run.seconds_left()) {
    const auto end = view.now + std::chrono::duration_cast<std::chrono::system_clock::duration>(
                                    std::chrono::duration<double>(*left));
    parts.push_back(
        fmt::format("{} left, until {}", report::format_duration(*left), clock_text(end, view.now)));
  }
  if (const std::optional<double> rate = run.tokens_per_second()) {
    fmt::memory_buffer text;
    report::append_rate(*rate, text);
    parts.push_back(fmt::to_string(text) + " tok/s");
  }
  if (run.step_seconds() > 0) parts.push_back(fmt::format("step {:.4g} ms", 1e3 * run.step_seconds()));
  if (run.last_checkpoint()) parts.push_back(fmt::format("checkpoint {}", *run.last_checkpoint()));
  if (!run.steps().empty() && run.steps().back().memory_peak) {
    fmt::memory_buffer text;
    report::append_memory(*run.steps().back().memory_peak, text);
    parts.push_back(fmt::to_string(text));
  }
  return parts;
}

}  // namespace

Line header(const RunState& run, const View& view) {
  Line line;
  line.add("penstock ", Ink::dim);
  const run_view::Liveness& life = run.liveness();
  const std::string state = shown(life.text(run.status()), view.abilities);
  const int room = std::max(8, view.columns - line.columns() - static_cast<int>(state.size()) - 4);
  line.add(cut_front(shown(run.paths().root().string(), view.abilities), room, view.abilities), Ink::strong);
  line.add("  ").add(view.abilities.utf8 ? "● " : "", ink_of(run)).add(state, ink_of(run));
  std::vector<std::string> more;
  if (run.status() && !run.status()->reason.empty() && life.life == Life::ended)
    more.push_back(run.status()->reason);
  if (run.status() && run.status()->attempt > 1)
    more.push_back(fmt::format("start {}", run.status()->attempt));
  if (life.holder) {
    const bool now = life.life == Life::alive || life.life == Life::silent;
    more.push_back(fmt::format("{}process {} on {}", now ? "" : "was ", life.holder->pid, life.holder->host));
  }
  if (life.life == Life::alive && life.heard_seconds && *life.heard_seconds > 30)
    more.push_back(fmt::format("status of {} ago", report::format_duration(*life.heard_seconds)));
  const int hint = static_cast<int>(view.hint.size());
  for (const std::string& foreign : more) {
    const std::string text = shown(foreign, view.abilities);
    if (line.columns() + 2 + columns_of(text) + (hint > 0 ? 2 + hint : 0) > view.columns) continue;
    line.add("  " + text, Ink::dim);
  }
  if (hint > 0 && line.columns() + 2 + hint <= view.columns)
    line.pad_to(view.columns - hint).add(view.hint, Ink::dim);
  return line;
}

Line progress(const RunState& run, const View& view) {
  Line line;
  const int64_t total = run.total_steps();
  if (run.past().empty() && !run.status()) {
    line.add(cut(fmt::format("waiting for {}", shown(run.paths().status().string(), view.abilities)),
                 view.columns, view.abilities),
             Ink::dim);
    return line;
  }
  line.add(fmt::format("step {}", run.step()), Ink::strong);
  if (total > 0) line.add(fmt::format("/{}", total), Ink::dim);
  std::string tail;
  const std::string percent =
      total > 0
          ? fmt::format(" {:.0f} %",
                        std::floor(100.0 * static_cast<double>(run.step()) / static_cast<double>(total)))
          : "";
  const int fixed = line.columns() + static_cast<int>(percent.size()) + (total > 0 ? 1 : 0);
  for (const std::string& part : tail_of(run, view)) {
    const int bar_room = total > 0 && view.columns >= 60 ? kLeastBar : 0;
    if (fixed + bar_room + columns_of(tail) + 2 + columns_of(part) > view.columns) break;
    tail += "  " + part;
  }
  if (total > 0) {
    const int room = std::min(kWidestBar, view.columns - fixed - columns_of(tail));
    const double share = static_cast<double>(run.step()) / static_cast<double>(total);
    if (room >= kLeastBar) line.add(" ").add(bar(share, room, view.abilities), Ink::accent);
    line.add(percent);
  }
  line.add(tail);
  return line;
}

}  // namespace penstock::watch
