#pragma once

#include <string>

#include "trainer/job/exit_code.h"

namespace penstock::commands {

/// The rank that a launcher gave this process, as far as its environment tells; 0 without a launcher.
int launched_rank();

/// Prints an error on standard error, once for all ranks of a launcher: what is wrong with arguments, job or
/// files, every rank finds, and rank 0 says it. What only another rank found is said by it, with its number.
void print_error(ExitCode code, const std::string& text);

}  // namespace penstock::commands
