#pragma once

#include <functional>

namespace penstock::commands {

/// Does a command's work and returns its exit status. An exception is printed, by rank 0 alone where all
/// ranks must have found the same, as "penstock: error: …" on standard error (a job file's problems as they
/// are), and becomes the exit code of its kind: JobError, ResumeError, RunFolderError and the like 2;
/// DataError 3; CheckpointError 4; SaveError 6; anything else 1.
int run_command(const std::function<int()>& work);

/// The exit status of a command whose product went to standard output: ExitCode::storage, with a message, if
/// it could not be written (a full disk behind `>`), else `exit_code`.
int checked_output(int exit_code);

}  // namespace penstock::commands
