#include "trainer/run_view/run_summary.h"

#include <cmath>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "trainer/report/progress_bar.h"
#include "trainer/report/rate_text.h"

namespace penstock::run_view {
namespace {

using nlohmann::ordered_json;

const char* name_of(Life life) {
  switch (life) {
    case Life::not_begun:
      return "not_begun";
    case Life::alive:
      return "alive";
    case Life::silent:
      return "silent";
    case Life::ended:
      return "ended";
    case Life::killed:
      return "killed";
  }
  return "?";
}

std::string row(const char* name, const std::string& text) {
  return fmt::format("{:<12} {}\n", name, text);
}

std::string who(const RunState& run) {
  const Liveness& life = run.liveness();
  if (!life.holder) return "";
  std::string text =
      fmt::format("process {} on {}, started {}", life.holder->pid, life.holder->host, life.holder->since);
  if (life.heard_seconds)
    text += fmt::format("; status of {} ago", report::format_duration(*life.heard_seconds));
  return text;
}

std::string limit_text(const LimitView& limit) {
  const budget::Figure figure = limit.limit.figure;
  std::string text = fmt::format("{} {} of {}", budget::name_of(figure),
                                 limit.value ? text_of(figure, *limit.value) : "not known yet",
                                 text_of(figure, limit.limit.value));
  if (limit.alarm_since) {
    text += fmt::format(", ALARM since step {}", *limit.alarm_since);
  } else if (limit.broken) {
    text += ", over";
  }
  return text;
}

}  // namespace

bool needs_resume(const RunState& run) {
  switch (run.liveness().life) {
    case Life::killed:
      return true;
    case Life::not_begun:
    case Life::alive:
    case Life::silent:
      return false;
    case Life::ended:
      return run.status()->needs_resume;
  }
  return false;
}

std::string summary_text(const RunState& run) {
  const std::optional<StatusRecord>& status = run.status();
  std::string text = row("run", run.paths().root().string());
  std::string state = run.liveness().text(status);
  if (status && status->exit_code) state += fmt::format(", exit code {}", *status->exit_code);
  if (status && !status->reason.empty()) state += ": " + status->reason;
  text += row("state", state);
  if (const std::string text_of_who = who(run); !text_of_who.empty()) text += row("where", text_of_who);
  if (run.liveness().life == Life::not_begun) return text;
  std::string step = fmt::format("{}", run.step());
  if (run.total_steps() > 0) step += fmt::format(" of {}", run.total_steps());
  if (status && status->attempt > 1) step += fmt::format(", start {}", status->attempt);
  text += row("step", step);
  if (run.last_checkpoint()) text += row("checkpoint", fmt::format("step {}", *run.last_checkpoint()));
  if (run.loss())
    text += row("loss", std::isfinite(*run.loss()) ? fmt::format("{:.4f}", *run.loss()) : "not finite");
  if (run.step_seconds() > 0) {
    fmt::memory_buffer speed;
    fmt::format_to(std::back_inserter(speed), "step {:.4g} ms", 1e3 * run.step_seconds());
    if (run.tokens_per_second()) {
      fmt::format_to(std::back_inserter(speed), ", ");
      report::append_rate(*run.tokens_per_second(), speed);
      fmt::format_to(std::back_inserter(speed), " tokens a second");
    }
    text += row("speed", fmt::to_string(speed));
  }
  if (run.bubble_ratio()) {
    text += row("bubble",
                fmt::format("{:.1f} %{}", 100 * *run.bubble_ratio(),
                            run.idle_ratio() ? fmt::format(", idle {:.1f} %", 100 * *run.idle_ratio()) : ""));
  }
  if (run.seconds_left()) text += row("left", report::format_duration(*run.seconds_left()));
  if (run.budget()) {
    for (const LimitView& limit : run.budget()->limits()) text += row("budget", limit_text(limit));
    if (run.budget()->trial())
      text += row("on trial", fmt::format("{} since step {}", run.budget()->trial()->action,
                                          run.budget()->trial()->since_step));
  }
  return text;
}

ordered_json summary_json(const RunState& run) {
  const std::optional<StatusRecord>& status = run.status();
  const auto finite = [](double value) {
    return std::isfinite(value) ? ordered_json(value) : ordered_json();
  };
  ordered_json json{{"schema", 1},
                    {"run", run.paths().root().string()},
                    {"life", name_of(run.liveness().life)},
                    {"state", status ? status->state : "not_begun"},
                    {"needs_resume", needs_resume(run)},
                    {"step", run.step()}};
  if (run.total_steps() > 0) json["steps"] = run.total_steps();
  if (status) {
    json["attempt"] = status->attempt;
    if (status->exit_code) json["exit_code"] = *status->exit_code;
    if (!status->reason.empty()) json["reason"] = status->reason;
  }
  if (run.liveness().holder) {
    json["host"] = run.liveness().holder->host;
    json["pid"] = run.liveness().holder->pid;
    json["since"] = run.liveness().holder->since;
  }
  if (run.liveness().heard_seconds) json["heard_seconds_ago"] = *run.liveness().heard_seconds;
  if (run.last_checkpoint()) json["last_checkpoint"] = *run.last_checkpoint();
  if (run.loss()) json["loss"] = finite(*run.loss());
  if (run.step_seconds() > 0) json["step_ms"] = 1e3 * run.step_seconds();
  if (run.tokens_per_second()) json["tokens_per_second"] = finite(*run.tokens_per_second());
  if (run.bubble_ratio()) json["bubble_ratio"] = finite(*run.bubble_ratio());
  if (run.idle_ratio()) json["idle_ratio"] = finite(*run.idle_ratio());
  if (run.seconds_left()) json["seconds_left"] = finite(*run.seconds_left());
  if (run.budget()) {
    ordered_json limits = ordered_json::array();
    for (const LimitView& limit : run.budget()->limits()) {
      const budget::Figure figure = limit.limit.figure;
      ordered_json each{{"limit", budget::name_of(figure)},
                        {"limit_value", budget::in_key_unit(figure, limit.limit.value)},
                        {"alarming", limit.alarm_since.has_value()}};
      if (limit.value) each["found"] = budget::in_key_unit(figure, *limit.value);
      if (limit.alarm_since) each["since_step"] = *limit.alarm_since;
      limits.push_back(std::move(each));
    }
    json["budget"] = limits;
    if (const auto& trial = run.budget()->trial()) {
      json["trial"] = {
          {"action", trial->action}, {"arrangement", trial->arrangement}, {"since_step", trial->since_step}};
    }
  }
  return json;
}

}  // namespace penstock::run_view
