#include "trainer/job/write_job.h"

#include <array>
#include <cstddef>
#include <string_view>

#include <fmt/format.h>

#include "parallel/schedule/catalogue.h"
#include "trainer/job/job_keys.h"
#include "trainer/job/resolve.h"

namespace penstock {
namespace {

// What may change between two parts of one run.
constexpr std::array<std::string_view, 16> kFreeOnResume{
    "run.name", "run.folder", "run.steps", "run.resume", "run.max_wall_time", "data.validation",
    "parallel", "comm",       "recompute", "evaluation", "checkpoint",        "bubble_budget",
    "log",      "trace",      "watchdog",  "cuda.graphs"};

bool free_on_resume(const std::string& key) {
  const std::string_view section = std::string_view(key).substr(0, key.find('.'));
  for (const std::string_view each : kFreeOnResume) {
    if (each == key || each == section) return true;
  }
  return false;
}

}  // namespace

std::string to_toml(const Job& job) {
  Job copy = job;
  std::string out = "# Written by penstock: the whole job, defaults included. It reproduces the run.\n";
  for (const SectionKeys& section : keys_of(copy)) {
    out += fmt::format("\n[{}]\n", section.name);
    for (const Key& key : section.keys) {
      const TomlNode value = key.value();
      if (value.kind != TomlNode::Kind::none) out += fmt::format("{} = {}\n", key.name, to_text(value));
    }
  }
  return out;
}

std::vector<Difference> difference(const Job& before, const Job& after) {
  Job first = before;
  Job second = after;
  const std::vector<SectionKeys> sections = keys_of(first);
  const std::vector<SectionKeys> others = keys_of(second);
  std::vector<Difference> out;
  for (size_t s = 0; s < sections.size(); ++s) {
    for (size_t k = 0; k < sections[s].keys.size(); ++k) {
      const Key& key = sections[s].keys[k];
      const TomlNode value = key.value();
      const TomlNode other = others[s].keys[k].value();
      if (same_value(value, other)) continue;
      out.push_back({sections[s].name + "." + key.name, to_text(value), to_text(other)});
    }
  }
  return out;
}

std::vector<Difference> refused_on_resume(const Job& stored, const Job& now) {
  const bool follows = stored.learning_rate.decay_style == now.learning_rate.decay_style &&
                       stored.learning_rate.decay_steps == default_decay_steps(stored) &&
                       now.learning_rate.decay_steps == default_decay_steps(now);
  std::vector<Difference> out;
  for (Difference& each : difference(stored, now)) {
    const bool delays = each.key == "parallel.schedule" && schedule::versions_of(stored.parallel.schedule) !=
                                                               schedule::versions_of(now.parallel.schedule);
    if ((free_on_resume(each.key) && !delays) || (follows && each.key == "learning_rate.decay_steps"))
      continue;
    out.push_back(std::move(each));
  }
  return out;
}

std::vector<Difference> refused_after_import(const Job& stored, const Job& now) {
  std::vector<Difference> out;
  for (Difference& each : difference(stored, now)) {
    // Rotary positions have no end; learned ones are parameters.
    const bool free = each.key == "model.dropout" || each.key == "model.init_std" ||
                      (each.key == "model.sequence_length" && stored.model.family == Family::llama);
    if (each.key.rfind("model.", 0) == 0 && !free) out.push_back(std::move(each));
  }
  return out;
}

std::string to_text(const std::vector<Difference>& differences) {
  std::string out;
  for (const Difference& each : differences) {
    out += fmt::format("  {}: {} → {}\n", each.key, each.before, each.after);
  }
  return out;
}

}  // namespace penstock
