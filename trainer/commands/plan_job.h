#pragma once

#include "trainer/commands/job_arguments.h"

namespace penstock::commands {

/// `penstock plan JOB`: prints what a run of the job takes, to the byte, without running it.
int run_plan_job(const JobArguments& arguments, bool json);

}  // namespace penstock::commands
