#pragma once

#include <CLI/CLI.hpp>

namespace penstock::commands {

/// Registers `plan`: of a job, its memory to the byte; with --schedule or --schedules, pipeline schedules
/// without a job.
CLI::App* add_plan(CLI::App& parent, int& exit_code);

}  // namespace penstock::commands
