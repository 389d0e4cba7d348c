#pragma once

#include <functional>

namespace penstock::commands {

/// Runs a command's work: returns its status, or prints a DataError as "penstock: error: …" on standard error
/// and returns ExitCode::data.
int run_reporting_data_errors(const std::function<void()>& work);

}  // namespace penstock::commands
