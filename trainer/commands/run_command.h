#pragma once

#include <exception>
#include <functional>

#include "trainer/job/exit_code.h"

namespace penstock::commands {

/// What a command that ends with this error exits with: one table for all commands. What is wrong with
/// arguments and the files that say what to do 2; what is read and missing or damaged 3; no checkpoint 4;
/// what cannot be written 6; anything else 1.
ExitCode exit_code_of(const std::exception& error);

/// Does a command's work and returns its exit status. An exception is printed, once for all ranks, as
/// "penstock: error: …" on standard error (a job file's problems as they are), and becomes the exit code of
/// its kind.
int run_command(const std::function<int()>& work);

/// The exit status of a command whose product went to standard output: ExitCode::storage, with a message, if
/// it could not be written (a full disk behind `>`), else `exit_code`.
int checked_output(int exit_code);

}  // namespace penstock::commands
