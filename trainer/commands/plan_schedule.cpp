#include "trainer/commands/plan_schedule.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/ioctl.h>
#include <unistd.h>

#include "data/file_writer.h"
#include "parallel/schedule/catalogue.h"
#include "parallel/schedule/csv.h"
#include "parallel/schedule/draw.h"
#include "trainer/commands/number_check.h"
#include "trainer/commands/schedule_answer.h"

namespace penstock::commands {

namespace {

using schedule::Measures;
using schedule::ScheduleError;
using schedule::ScheduleKind;
using schedule::ScheduleOptions;

schedule::TerminalStyle terminal_style(const std::ostream& out) {
  schedule::TerminalStyle style;
  const bool terminal = &out == &std::cout && isatty(STDOUT_FILENO) == 1;
  winsize size{};
  if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) style.width = size.ws_col;
  if (const char* columns = std::getenv("COLUMNS")) {
    const long asked = std::strtol(columns, nullptr, 10);
    if (asked > 0) style.width = static_cast<int>(std::min(asked, 1000L));
  }
  style.width = std::max(style.width, 20);
  const char* no_color = std::getenv("NO_COLOR");
  style.color = terminal && (no_color == nullptr || *no_color == '\0');
  return style;
}

std::string title(const schedule::Schedule& schedule) {
  return fmt::format("{}: P = {}, M = {}, v = {}", schedule.name, schedule.ranks, schedule.micro_batches,
                     schedule.chunks);
}

/// An output that was asked for, opened before the work: a path that cannot be written costs nothing.
std::unique_ptr<data::FileWriter> output(const std::string& path) {
  return path.empty() ? nullptr : std::make_unique<data::FileWriter>(path);
}

void finish(data::FileWriter& file, const std::string& text) {
  file.write(text);
  file.commit();
}

void print_ranks(const Measures& measures, std::ostream& out) {
  out << fmt::format("{:>4}{:>11}{:>10}{:>9}{:>9}{:>9}{:>9}{:>9}{:>12}\n", "rank", "busy", "idle", "fill",
                     "wait", "transfer", "buffer", "drain", "peak slots");
  for (size_t r = 0; r < measures.ranks.size(); ++r) {
    const schedule::RankMeasures& rank = measures.ranks[r];
    out << fmt::format("{:>4}{:>11.5g}{:>10.5g}{:>9.4g}{:>9.4g}{:>9.4g}{:>9.4g}{:>9.4g}{:>12.5g}\n", r,
                       rank.busy, without_rounding(rank.idle), without_rounding(rank.causes.fill),
                       without_rounding(rank.causes.wait), without_rounding(rank.causes.transfer),
                       without_rounding(rank.causes.buffer), without_rounding(rank.causes.drain),
                       rank.peak_slots);
  }
}

void print(const ScheduleAnswer& made, const ScheduleAnswer& drawn, const std::string& costs,
           std::ostream& out) {
  const Measures& measures = made.measures;
  out << title(made.schedule) << (made.schedule.copies > 1 ? ", 2 copies of the weights" : "")
      << (made.schedule.asynchronous ? ", 2 versions of the weights; two steps are drawn" : "")
      << "; costs F,I,W,transfer = " << costs << "\n\n"
      << draw_terminal(drawn.program, drawn.timeline, terminal_style(out))
      << fmt::format("\nmakespan {:.6g}{}, bubble {:.2f} %, rank-span {:.2f} %\n", measures.makespan,
                     made.schedule.asynchronous ? " a step in the steady state" : "",
                     100 * without_rounding(measures.bubble_ratio),
                     100 * without_rounding(measures.bubble_ratio_rank_span))
      << fmt::format("valid; {} messages in one global order, each received at most {} action(s) ahead\n\n",
                     made.program.orders, made.program.options.receive_lead);
  print_ranks(measures, out);
  if (measures.bubble_ratio > measures.bubble_ratio_rank_span + 1e-9) {
    out << "\nThe rank-span figure is real only where every rank may step its optimizer without waiting for "
           "the\n"
           "others (see docs/schedules.md); the step takes the makespan.\n";
  }
  if (made.schedule.chunks == 1 && (made.schedule.name == "interleaved" || made.schedule.name == "bfs")) {
    out << "\nOne chunk a rank: nothing is interleaved. --chunks 2 or more divides the bubble.\n";
  }
}

ScheduleOptions sizes(const PlanScheduleOptions& options) {
  ScheduleOptions made;
  made.ranks = options.pipeline;
  made.micro_batches = options.micro_batches;
  made.chunks = options.chunks;
  made.warmup_slack = options.warmup_slack;
  return made;
}

void require_sizes(const PlanScheduleOptions& options) {
  if (options.pipeline == 0) throw ScheduleError("--pipeline is missing: the number of pipeline ranks P");
  if (options.micro_batches == 0)
    throw ScheduleError("--micro-batches is missing: the micro-batches M of a step");
}

ScheduleOptions with_waves(ScheduleOptions asked, const PlanScheduleOptions& options) {
  if (options.waves == 0) return asked;
  if (options.schedule != "hanayo")
    throw ScheduleError("--waves belongs to hanayo; other schedules take --chunks");
  if (options.chunks > 0 && options.chunks != 2 * options.waves) {
    throw ScheduleError(fmt::format("--waves {} means {} chunks a rank, but --chunks {} was given",
                                    options.waves, 2 * options.waves, options.chunks));
  }
  asked.chunks = 2 * options.waves;
  return asked;
}

void plan_one(const PlanScheduleOptions& options, std::ostream& out) {
  const bool file = options.schedule.rfind("file:", 0) == 0;
  if (!file) {
    schedule::find_schedule_kind(options.schedule);  // a misspelt name is said before a missing number
    require_sizes(options);
  } else if (options.warmup_slack > 0) {
    throw ScheduleError("--warmup-slack belongs to 1f1b; a file says all of its schedule");
  }
  const RankCosts costs = read_costs(options.costs);
  const ScheduleOptions asked = with_waves(sizes(options), options);
  std::unique_ptr<data::FileWriter> csv = output(options.csv_path);
  std::unique_ptr<data::FileWriter> svg = output(options.svg_path);
  const ScheduleAnswer made = answer(options.schedule, asked, costs);
  const ScheduleAnswer drawn = picture(made, asked, costs);
  if (csv) finish(*csv, schedule::write_csv(schedule::generate(options.schedule, asked)));
  if (svg) finish(*svg, draw_svg(drawn.program, drawn.timeline, title(made.schedule)));
  if (options.json) {
    out << to_json(made).dump(2) << "\n";
  } else {
    print(made, drawn, options.costs, out);
  }
}

std::string table_row(const ScheduleKind& kind, const ScheduleAnswer& made) {
  double idle = 0;
  double slots = 0;
  for (const schedule::RankMeasures& rank : made.measures.ranks) {
    idle = std::max(idle, rank.idle);
    slots = std::max(slots, rank.peak_slots);
  }
  return fmt::format("{:<12}{:>6}{:>8}{:>10}{:>10.5g}{:>8.2f} %{:>8.2f} %{:>10.5g}{:>12.5g}\n", kind.name,
                     made.schedule.chunks, kind.copies, kind.versions, made.measures.makespan,
                     100 * without_rounding(made.measures.bubble_ratio),
                     100 * without_rounding(made.measures.bubble_ratio_rank_span), without_rounding(idle),
                     slots);
}

void compare(const PlanScheduleOptions& options, std::ostream& out) {
  require_sizes(options);
  if (!options.csv_path.empty() || !options.svg_path.empty() || options.waves > 0) {
    throw ScheduleError("--emit-csv, --svg and --waves belong to one schedule: name it with --schedule");
  }
  const RankCosts costs = read_costs(options.costs);
  nlohmann::json rows = nlohmann::json::array();
  std::string table =
      fmt::format("{:<12}{:>6}{:>8}{:>10}{:>10}{:>10}{:>10}{:>10}{:>12}\n", "schedule", "chunks", "copies",
                  "versions", "makespan", "bubble", "rank-span", "idle", "peak slots");
  for (const ScheduleKind& kind : schedule::schedule_kinds()) {
    ScheduleOptions asked = sizes(options);
    // The chunks asked for, where the schedule has a choice; two where one would make it another schedule.
    asked.chunks = kind.max_chunks == kind.min_chunks ? 0 : options.chunks > 0 ? options.chunks : 2;
    if (kind.name != std::string("1f1b")) asked.warmup_slack = 0;
    try {
      const ScheduleAnswer made = answer(kind.name, asked, costs);
      rows.push_back(to_json(made));
      table += table_row(kind, made);
    } catch (const ScheduleError& error) {
      std::string reason = error.what();
      const std::string prefix = fmt::format("schedule {}: ", kind.name);
      if (reason.rfind(prefix, 0) == 0) reason.erase(0, prefix.size());
      rows.push_back({{"schedule", kind.name}, {"refused", reason}});
      table += fmt::format("{:<12}{}\n", kind.name, reason);
    }
  }
  if (options.json) {
    const nlohmann::json all{
        {"pipeline", options.pipeline}, {"micro_batches", options.micro_batches}, {"schedules", rows}};
    out << all.dump(2) << "\n";
    return;
  }
  out << fmt::format("P = {}, M = {}; costs F,I,W,transfer = {}\n\n{}\n", options.pipeline,
                     options.micro_batches, options.costs, table)
      << "idle and peak slots: the worst rank's; activations in full-rank units. bubble is what the step "
         "time shows;\n"
         "rank-span is real only where optimizer steps do not wait for other ranks. 2bw: one step in the "
         "steady state.\n";
}

}  // namespace

void add_schedule_options(CLI::App& plan, PlanScheduleOptions& options) {
  plan.add_option(
      "--schedule", options.schedule,
      "plan this schedule without a job file: a name (--schedules lists them), or file:<path>.csv");
  plan.add_flag("--schedules", options.compare, "compare all schedules in one table");
  plan.add_option("--pipeline", options.pipeline, "pipeline ranks P")
      ->check(whole_number(1, schedule::max_ranks));
  plan.add_option("--micro-batches", options.micro_batches, "micro-batches M of a step")
      ->check(whole_number(1, schedule::max_micro_batches));
  plan.add_option("--chunks", options.chunks, "chunks v a rank (default 1; V schedules and hanayo 2)")
      ->check(whole_number(1, schedule::max_chunks));
  plan.add_option("--waves", options.waves, "hanayo: waves w, which are 2w chunks a rank")
      ->check(whole_number(1, schedule::max_chunks / 2));
  plan.add_option("--warmup-slack", options.warmup_slack,
                  "1f1b: extra warm-up forwards on every rank but the last")
      ->check(whole_number(0, schedule::max_micro_batches));
  plan.add_option(
      "--costs", options.costs,
      "F,I,W,transfer of a rank and micro-batch in any one unit; a chunk costs 1/v (default 1,1,1,0)");
  plan.add_option("--emit-csv", options.csv_path,
                  "write the schedule in PyTorch's CSV notation to this file");
  plan.add_option("--svg", options.svg_path, "write the picture to this file");
  plan.add_flag("--json", options.json, "print JSON");
}

int run_plan_schedule(const PlanScheduleOptions& options, std::ostream& out) {
  if (options.compare && !options.schedule.empty()) {
    throw ScheduleError("--schedule and --schedules exclude each other: one schedule, or all of them");
  }
  options.compare ? compare(options, out) : plan_one(options, out);
  return 0;
}

}  // namespace penstock::commands
