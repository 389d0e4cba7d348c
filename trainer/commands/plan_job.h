#pragma once

#include <iosfwd>
#include <string>

#include <CLI/CLI.hpp>

#include "trainer/commands/job_arguments.h"

namespace penstock::commands {

/// How a job is planned.
struct PlanJobOptions {
  std::string profile;     ///< a file's path; empty: the job's own profile, or formulas
  std::string cluster;     ///< a file's path; empty: this machine
  bool any_micro = false;  ///< other micro-batch sizes are tried too, with the batch kept
  bool brief = false;      ///< plan, step and limits only
  bool memory = false;     ///< every arena and piece too
};

/// Adds --profile, --cluster, --any-micro, --brief and --memory.
void add_plan_job_options(CLI::App& plan, PlanJobOptions& options);

/// Prints what the job's plan is and what it takes. The exit code; throws what run_command() reports.
int run_plan_job(const JobArguments& arguments, const PlanJobOptions& options, bool json, std::ostream& out);

}  // namespace penstock::commands
