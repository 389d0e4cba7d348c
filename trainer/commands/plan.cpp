#include "trainer/commands/plan.h"

#include <iostream>
#include <memory>

#include "trainer/commands/foreign_options.h"
#include "trainer/commands/job_arguments.h"
#include "trainer/commands/plan_job.h"
#include "trainer/commands/plan_schedule.h"
#include "trainer/commands/run_command.h"

namespace penstock::commands {
namespace {

void check_options(const CLI::App& command, bool job) {
  if (job) {
    refuse_given(command, "the job file says what is planned",
                 {{"--pipeline", "--set parallel.pipeline={}"},
                  {"--micro-batches", "--set batch.micro=N (micro-batches are batch.global / data / micro)"},
                  {"--chunks", "--set parallel.chunks={}"},
                  {"--waves", "--set parallel.chunks=N, two a wave"},
                  {"--warmup-slack", "--set parallel.warmup_slack={}"},
                  {"--costs", "--profile FILE"},
                  {"--emit-csv", "--schedule NAME --pipeline P --micro-batches M --emit-csv {}"},
                  {"--svg", "--schedule NAME --pipeline P --micro-batches M --svg {}"}});
  } else {
    const std::string instead = "name a job file in the schedule's place";
    refuse_given(command, "a schedule is planned without a model, at given costs",
                 {{"--set", instead},
                  {"--profile", instead},
                  {"--cluster", instead},
                  {"--any-micro", instead},
                  {"--brief", instead},
                  {"--memory", instead}});
  }
}

}  // namespace

CLI::App* add_plan(CLI::App& parent, int& exit_code) {
  struct Arguments {
    JobArguments job;
    PlanJobOptions planning;
    PlanScheduleOptions schedule;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = parent.add_subcommand(
      "plan", "How a job is best cut and scheduled, and what it will take; or what a schedule will idle");
  arguments->job.add_to(*command, false);
  add_plan_job_options(*command, arguments->planning);
  add_schedule_options(*command, arguments->schedule);
  command->footer(
      "Examples:\n"
      "  penstock plan job.toml --set parallel.pipeline=4                    # stages, step, limits\n"
      "  penstock plan job.toml --set parallel.schedule=auto --profile profile.json\n"
      "  penstock plan job.toml --cluster configs/clusters/h100-dgx.toml     # for a machine that is not "
      "here\n"
      "  penstock plan job.toml --brief --memory                             # every arena to the byte\n"
      "  penstock plan --schedule zbv --pipeline 4 --micro-batches 8         # a schedule, drawn\n"
      "  penstock plan --schedule 1f1b --pipeline 8 --micro-batches 32 --costs 1,1,1,0.1 --svg 1f1b.svg\n"
      "  penstock plan --schedules --pipeline 8 --micro-batches 32           # all of them in one table");
  command->parse_complete_callback([arguments, command] {
    const bool job = !arguments->job.file.empty();
    if (job == arguments->schedule.given()) {
      throw CLI::ValidationError(job ? "name either a job file or a schedule, not both"
                                     : "name a job file, --schedule or --schedules");
    }
    check_options(*command, job);
  });
  command->callback([arguments, &exit_code] {
    exit_code = run_command([&] {
      const bool job = !arguments->job.file.empty();
      return job ? run_plan_job(arguments->job, arguments->planning, arguments->schedule.json, std::cout)
                 : run_plan_schedule(arguments->schedule, std::cout);
    });
  });
  return command;
}

}  // namespace penstock::commands
