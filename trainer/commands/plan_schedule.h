// `penstock plan --schedule …` and `--schedules`: what a schedule costs, without a job file, a model or
// ranks.
#pragma once

#include <iosfwd>
#include <string>

#include <CLI/CLI.hpp>

namespace penstock::commands {

struct PlanScheduleOptions {
  // A name or "file:<path>"; "" if only `compare` was asked for.
  std::string schedule;
  // Every known schedule in one table.
  bool compare = false;
  // 0: not given.
  int pipeline = 0;
  int micro_batches = 0;
  int chunks = 0;
  int waves = 0;
  int warmup_slack = 0;
  // F,I,W[,transfer] of a rank and micro-batch, in any one unit.
  std::string costs = "1,1,1,0";
  std::string csv_path;
  std::string svg_path;
  bool json = false;

  // One of the two forms was asked for.
  bool given() const { return compare || !schedule.empty(); }
};

// Adds the flags to `penstock plan`.
void add_schedule_options(CLI::App& plan, PlanScheduleOptions& options);

// Returns the exit code 0. schedule::ScheduleError for what cannot be planned, data::WriteError for a picture
// or CSV that cannot be written, before anything is planned. Draws in colour only where `out` is std::cout on
// a terminal.
int run_plan_schedule(const PlanScheduleOptions& options, std::ostream& out);

}  // namespace penstock::commands
