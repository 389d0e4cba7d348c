#include "trainer/commands/job_arguments.h"

#include "kernels/backend/cuda_backend.h"
#include "trainer/job/read_job.h"

namespace penstock::commands {

void JobArguments::add_to(CLI::App& command, bool required) {
  command.add_option("job", file, "the job file (TOML)")->required(required)->type_name("JOB");
  add_overrides_to(command);
}

void JobArguments::add_overrides_to(CLI::App& command) {
  command.add_option("--set", overrides, "overrides a key of the job file, e.g. --set run.steps=2000")
      ->type_name("section.key=value")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);  // one value each: what follows may be the job file
}

Job JobArguments::read(int64_t ranks) const {
  return read_job(file, overrides, {ranks, cuda_present()});
}

}  // namespace penstock::commands
