#include "trainer/commands/profile.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "data/data_error.h"
#include "data/file_writer.h"
#include "trainer/commands/foreign_options.h"
#include "trainer/commands/given_command.h"
#include "trainer/commands/job_arguments.h"
#include "trainer/commands/leave_on_signal.h"
#include "trainer/commands/number_check.h"
#include "trainer/commands/profile_table.h"
#include "trainer/commands/run_command.h"
#include "trainer/commands/run_ranks.h"
#include "trainer/corpus.h"
#include "trainer/job_profile.h"
#include "trainer/processor_share.h"
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

// Opened before the work, so that a wrong path costs nothing.
std::unique_ptr<data::FileWriter> open_output(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) throw data::write_error(folder.string(), "create the folder", error.value());
  return std::make_unique<data::FileWriter>(path);
}

void write_profile_file(data::FileWriter& file, const planner::Profile& profile) {
  file.write(planner::write_profile(profile));
  file.commit();
}

// From what a run measured: needs no ranks.
int run_from_run(const ProfileArguments& arguments) {
  std::unique_ptr<data::FileWriter> file;
  if (!arguments.output.empty()) file = open_output(arguments.output);
  const RunProfile made = profile_from_run(arguments.from_run);
  // Only now: a folder that is no run's is left as it is.
  if (!file) file = open_output(RunPaths(arguments.from_run).profile().string());
  write_profile_file(*file, made.profile);
  for (const std::string& note : made.notes) fmt::print(stderr, "penstock: note: {}\n", note);
  fmt::print("{}by {} steps of {}; among a rank's units split {}; written to {}\n",
             profile_table(made.profile, made.job.batch.micro), made.steps, arguments.from_run, made.scaled,
             file->path());
  return 0;
}

int run_profile(const ProfileArguments& arguments, Job job, transport::World& world) {
  Corpus::open_tokenizer(job);  // the vocabulary's size may be the tokenizer's
  const bool leads = world.rank() == 0;
  runtime::ProfileRequest request = profile_request(job, sizes_of(arguments, job), modes_of(arguments));
  request.effort.repetitions = static_cast<int>(arguments.repetitions);
  std::unique_ptr<data::FileWriter> file;
  if (leads) file = open_output(output_path(arguments, job));
  Backend backend = make_backend(job, world);
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
  const ProcessorShare share = processor_share(job.parallel.threads, world);
  if (!leads) return 0;
  if (bar) bar->finish();
  describe(profile, job);
  profile.threads_per_processor = share.load();
  write_profile_file(*file, profile);
  fmt::print("{}written to {}\n", profile_table(profile, job.batch.micro), file->path());
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
  command->parse_complete_callback([arguments, command] {
    if (arguments->job.file.empty() == arguments->from_run.empty())
      throw CLI::ValidationError("name either a job file or a run (--from-run)");
    if (arguments->from_run.empty()) return;
    refuse_given(*command, "a run is known at its own job, micro-batch size and recomputation",
                 {{"--set", "name the job file"},
                  {"--micro-batches", "name the job file"},
                  {"--recompute", "name the job file"},
                  {"--repetitions", "name the job file"}});
  });
  command->callback([arguments, command, &exit_code] {
    exit_code = run_command([&] {
      if (!arguments->from_run.empty()) return run_from_run(*arguments);
      leave_on_signals();
      return run_ranks(arguments->job, given_command(*command), [&](const Job& job, transport::World& world) {
        return run_profile(*arguments, job, world);
      });
    });
  });
  return command;
}

}  // namespace penstock::commands
