#include "trainer/commands/job.h"

#include <memory>

#include <fmt/format.h>

#include "trainer/commands/foreign_options.h"
#include "trainer/commands/job_arguments.h"
#include "trainer/commands/run_command.h"
#include "trainer/job/foreign_names.h"
#include "trainer/job/write_job.h"

namespace penstock::commands {

CLI::App* add_job(CLI::App& parent, int& exit_code) {
  struct Arguments {
    JobArguments job;
    bool docs = false;
    bool coming_from = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      parent.add_subcommand("job", "Check a job file, and print it with every default filled");
  arguments->job.add_to(*command, false);
  command->add_flag("--docs", arguments->docs,
                    "print the documentation of every key (docs/job-file.md) instead");
  command->add_flag("--coming-from", arguments->coming_from,
                    "print other trainers' names and ours (docs/coming-from.md) instead");
  command->footer(
      "Examples:\n"
      "  penstock job configs/quickstart.toml\n"
      "  penstock job --docs > docs/job-file.md");
  command->parse_complete_callback([arguments, command] {
    if (arguments->docs && arguments->coming_from) throw CLI::ValidationError("pass --docs or --coming-from");
    if (arguments->docs || arguments->coming_from)
      refuse_given(*command, "the documentation is of every job", {{"job", ""}, {"--set", ""}});
    else if (arguments->job.file.empty())
      throw CLI::ValidationError("name a job file, or pass --docs or --coming-from");
  });
  command->callback([arguments, &exit_code] {
    exit_code = run_command([&] {
      if (arguments->docs) {
        fmt::print("{}", job_file_page());
        return 0;
      }
      if (arguments->coming_from) {
        fmt::print("{}", foreign_names_page());
        return 0;
      }
      fmt::print("{}", to_toml(arguments->job.read()));
      return 0;
    });
  });
  return command;
}

}  // namespace penstock::commands
