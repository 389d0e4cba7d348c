#include "trainer/commands/profile.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "data/file_writer.h"
#include "trainer/commands/job_arguments.h"
#include "trainer/commands/number_check.h"
#include "trainer/commands/profile_table.h"
#include "trainer/commands/run_command.h"
#include "trainer/commands/run_ranks.h"
#include "trainer/corpus.h"
#include "trainer/job/exit_code.h"
#include "trainer/job_profile.h"
#include "trainer/report/progress_bar.h"
#include "trainer/run_folder.h"
#include "trainer/run_profile.h"

namespace penstock::commands {
namespace {

struct ProfileArguments {
  JobArguments job;
  std::string output;
  std::vector<int64_t> micro_batches;
  std::vector<std::string> recompute;
  int64_t repetitions = 9;
  std::string from_run;
};

std::vector<int64_t> sizes_of(const ProfileArguments& arguments, const Job& job) {
  if (arguments.micro_batches.empty()) return usual_micro_batches(job);
  std::vector<int64_t> sizes = arguments.micro_batches;
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  const int64_t sequences = job.batch.micro * job.micro_batches();
  for (const int64_t size : sizes) {
    if (sequences % size != 0) {
      throw planner::ProfileError(fmt::format(
          "--micro-batches {}: does not divide the {} sequences of a replica and step (batch.global = {}, "
          "parallel.data = {})",
          size, sequences, job.batch.global, job.parallel.data));
    }
  }
  return sizes;
}

std::vector<planner::Recompute> modes_of(const ProfileArguments& arguments) {
  std::vector<planner::Recompute> modes;
  for (size_t index = 0; index < planner::recompute_modes; ++index) {
    const auto mode = static_cast<planner::Recompute>(index);
    const bool asked =
        arguments.recompute.empty() || std::find(arguments.recompute.begin(), arguments.recompute.end(),
                                                 planner::to_string(mode)) != arguments.recompute.end();
    if (asked) modes.push_back(mode);
  }
  return modes;
}

std::string output_path(const ProfileArguments& arguments, const Job& job) {
  if (!arguments.output.empty()) return arguments.output;
  return RunPaths(std::filesystem::path(job.run.folder) / job.run.name).profile().string();
}

void write_profile_file(const std::string& path, const planner::Profile& profile) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error)
    throw RunFolderError(fmt::format("cannot create the folder {}: {}", folder.string(), error.message()));
  data::write_file(path, planner::write_profile(profile));
}

// From what a run measured: needs no ranks.
int run_from_run(const ProfileArguments& arguments) {
  const RunProfile made = profile_from_run(arguments.from_run);
  const std::string path =
      arguments.output.empty() ? RunPaths(arguments.from_run).profile().string() : arguments.output;
  write_profile_file(path, made.profile);
  fmt::print("{}by {} steps of {}; among a rank's units split {}; written to {}\n",
             profile_table(made.profile, made.job.batch.micro), made.steps, arguments.from_run, made.scaled,
             path);
  return 0;
}

int run_profile(const ProfileArguments& arguments, Job job, transport::World& world) {
  Corpus::open_tokenizer(job);  // the vocabulary's size may be the tokenizer's
  const bool leads = world.rank() == 0;
  runtime::ProfileRequest request = profile_request(job, sizes_of(arguments, job), modes_of(arguments));
  request.effort.repetitions = static_cast<int>(arguments.repetitions);
  Backend backend = make_backend(job, world.rank());
  std::optional<report::ProgressBar> bar;
  planner::Profile profile =
      measure_profile(*backend.device, backend.math, world, request, [&](int done, int total) {
        if (!leads) return;
        if (!bar) {
          report::ProgressOptions options;
          options.label = "profiling";
          options.unit = "measurements";
          options.kind = report::ProgressUnit::count;
          options.total = static_cast<uint64_t>(total);
          bar.emplace(options);
        }
        bar->update(static_cast<uint64_t>(done));
      });
  if (!leads) return 0;
  if (bar) bar->finish();
  describe(profile, job);
  const std::string path = output_path(arguments, job);
  write_profile_file(path, profile);
  fmt::print("{}written to {}\n", profile_table(profile, job.batch.micro), path);
  return 0;
}

}  // namespace

CLI::App* add_profile(CLI::App& parent, int& exit_code) {
  auto arguments = std::make_shared<ProfileArguments>();
  CLI::App* command = parent.add_subcommand(
      "profile", "Measure what the job's units, links and reductions cost here, for `plan` and `train`");
  arguments->job.add_to(*command, false);
  command->add_option("--output", arguments->output, "the file; else profile.json in the run's folder")
      ->type_name("FILE");
  command
      ->add_option("--micro-batches", arguments->micro_batches,
                   "sizes in sequences, e.g. 1,2,4; else the job's, its half and its double")
      ->delimiter(',')
      ->check(whole_number(1, int64_t{1} << 32))
      ->type_name("N,...");
  command->add_option("--recompute", arguments->recompute, "modes to measure, e.g. none,full; else all three")
      ->delimiter(',')
      ->check(CLI::IsMember({"none", "selective", "full"}))
      ->type_name("MODE,...");
  command->add_option("--repetitions", arguments->repetitions, "how often each is measured, at least")
      ->check(whole_number(3, 10000))
      ->type_name("N");
  command
      ->add_option("--from-run", arguments->from_run,
                   "instead of measuring: scale to what a run's ranks took, finished or going on")
      ->type_name("FOLDER");
  command->footer(
      "One unit of each kind is measured at a time: the model need not fit on one rank. Links are measured "
      "over the\njob's own transport between the ranks that it is started on.\n"
      "Examples:\n"
      "  penstock profile job.toml                                # one rank, or threads\n"
      "  mpirun -n 4 penstock profile job.toml                    # with the links of four processes\n"
      "  penstock profile job.toml --micro-batches 1,2,4 --output profile.json\n"
      "  penstock profile --from-run runs/NAME                    # from a run's own steps");
  command->callback([arguments, &exit_code] {
    exit_code = run_command([&] {
      if (arguments->job.file.empty() == arguments->from_run.empty()) {
        fmt::print(stderr,
                   "penstock: error: name either a job file or a run (--from-run)\nRun `penstock profile "
                   "--help` for what it takes.\n");
        return static_cast<int>(ExitCode::usage);
      }
      if (!arguments->from_run.empty()) return run_from_run(*arguments);
      return run_ranks(
          arguments->job, "penstock profile " + arguments->job.file,
          [&](const Job& job, transport::World& world) { return run_profile(*arguments, job, world); });
    });
  });
  return command;
}

}  // namespace penstock::commands
