#include "trainer/commands/replay.h"

#include <cstdlib>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "data/file_writer.h"
#include "kernels/transport/launch.h"
#include "kernels/transport/mpi_world.h"
#include "parallel/schedule/measures.h"
#include "trainer/commands/foreign_options.h"
#include "trainer/commands/given_command.h"
#include "trainer/commands/number_check.h"
#include "trainer/commands/print_error.h"
#include "trainer/commands/replay_budget.h"
#include "trainer/commands/run_command.h"
#include "trainer/job/exit_code.h"
#include "trainer/replay/step_summary.h"

namespace penstock::commands {

namespace {

using schedule::Program;
using schedule::ScheduleError;

constexpr double millisecond = 1e-3;

/// Prints the steps that were asked for, and writes their stamps.
class Report {
 public:
  /// `stamps`: where they go; nothing where none were asked for.
  Report(const ReplayArguments& arguments, const ReplaySource& source, std::ostream& out,
         std::optional<data::FileWriter>& stamps)
      : arguments_(arguments),
        account_(source.program, source.rolling ? &*source.rolling : nullptr),
        source_overlaps_(source.rolling.has_value()),
        out_(out),
        stamps_(stamps) {
    if (stamps_) stamps_->write(replay::stamp_head);
  }

  void begin(const std::string& title) { out_ << title << "\n" << replay::summary_head() << std::flush; }

  void add(uint64_t step, std::span<const replay::RankStep> ranks) {
    const bool shown = (step - arguments_.first_step) % arguments_.every == 0;
    if (!shown && !source_overlaps_) return;
    const replay::StepSummary summary = account_.add(step, ranks);
    if (!shown) return;
    sum_ += summary.seconds;
    ++count_;
    out_ << replay::summary_line(summary) << std::flush;
    if (stamps_) stamps_->write(replay::stamp_lines(step, ranks));
  }

  void end(double simulated) {
    if (stamps_) stamps_->commit();
    if (count_ == 0) return;
    const double mean = sum_ / static_cast<double>(count_);
    out_ << fmt::format(
        "mean {:.3f} ms a step; simulated without disturbances and noise {:.3f} ms ({:+.2f} %)\n",
        mean / millisecond, simulated / millisecond, 100 * (mean / simulated - 1));
  }

 private:
  const ReplayArguments& arguments_;
  replay::ReplayAccount account_;
  bool source_overlaps_;  ///< an account needs the step before
  std::ostream& out_;
  std::optional<data::FileWriter>& stamps_;
  double sum_ = 0;
  int count_ = 0;
};

void check_options(const CLI::App& command, const ReplayArguments& arguments) {
  if (arguments.source.job.file.empty()) {
    refuse_given(command, "without a job file a schedule is replayed, at given costs",
                 {{"--profile", "name the job file, or --costs"}, {"--set", "name the job file"}});
  } else {
    refuse_given(command, "the job file says what is replayed",
                 {{"--schedule", "--set parallel.schedule={}"},
                  {"--pipeline", "--set parallel.pipeline={}"},
                  {"--micro-batches", "--set batch.micro=N (micro-batches are batch.global / data / micro)"},
                  {"--chunks", "--set parallel.chunks={}"},
                  {"--warmup-slack", "--set parallel.warmup_slack={}"},
                  {"--costs", "--profile FILE"},
                  {"--stage-costs", "--profile FILE"},
                  {"--reduction", "--profile FILE"},
                  {"--tied-sum", "--profile FILE"},
                  {"--optimizer", "--profile FILE"}});
  }
  if (!arguments.sleeping)
    refuse_given(command, "in virtual time no bytes move", {{"--message-bytes", "add --sleep"}});
  if (arguments.rank_sigma == 0)
    refuse_given(command, "it is of the ranks' noise, which is 0", {{"--correlation", "add --rank-noise"}});
  if (arguments.rank_sigma == 0 && arguments.action_sigma == 0)
    refuse_given(command, "there is no noise", {{"--seed", "add --rank-noise or --action-noise"}});
}

/// The MPI world that a launcher made for us, if one did.
std::unique_ptr<transport::World> launched_world(int ranks, const std::string& command) {
  transport::LaunchRequest request;
  request.pipeline = ranks;
  request.data = 1;
  request.command = command;
  const transport::LaunchSigns signs =
      transport::read_launch_signs([](const char* name) { return std::getenv(name); });
  std::unique_ptr<transport::World> mpi;
  if (transport::needs_mpi(request, signs, transport::mpi_built_in())) mpi = transport::make_mpi_world();
  const transport::LaunchPlan plan = transport::plan_launch(request, signs, mpi ? mpi->size() : 0);
  return plan.transport == transport::TransportKind::mpi ? std::move(mpi) : nullptr;
}

}  // namespace

runtime::ReplayTimes replay_times(const ReplayArguments& arguments, const Program& program,
                                  const schedule::Costs& costs) {
  std::vector<runtime::Disturbance> disturbances;
  for (const std::string& text : arguments.disturbances)
    disturbances.push_back(runtime::read_disturbance(text));
  runtime::require_within(disturbances, arguments.first_step, arguments.steps);
  constexpr double percent = 0.01;
  return {program,
          costs,
          std::move(disturbances),
          {arguments.action_sigma * percent, arguments.rank_sigma * percent, arguments.correlation,
           arguments.seed}};
}

void add_replay_options(CLI::App& command, ReplayArguments& arguments) {
  arguments.source.job.add_to(command, false);
  command.add_option("--profile", arguments.source.profile,
                     "the costs of the job's units, measured on any machine; without it: the job's own "
                     "profile, or formulas");
  constexpr int64_t most_steps = 1'000'000'000;
  constexpr double most_milliseconds = 1e9;
  command.add_option("--schedule", arguments.source.schedule,
                     "without a job file: a schedule's name (default 1f1b)");
  command.add_option("--pipeline", arguments.source.pipeline, "pipeline ranks P")
      ->check(whole_number(1, 1024));
  command.add_option("--micro-batches", arguments.source.micro_batches, "micro-batches M of a step")
      ->check(whole_number(1, schedule::max_micro_batches));
  command
      .add_option("--chunks", arguments.source.chunks,
                  "chunks v a rank (default 1; V schedules and hanayo 2)")
      ->check(whole_number(1, schedule::max_chunks));
  command.add_option("--warmup-slack", arguments.source.warmup_slack, "1f1b: extra warm-up forwards")
      ->check(whole_number(0, schedule::max_micro_batches));
  command.add_option(
      "--costs", arguments.source.costs,
      "F,I,W,transfer of a rank and micro-batch in ms; a chunk costs 1/v (default 10,10,10,0)");
  command.add_option("--stage-costs", arguments.source.stages,
                     "F,I,W of a stage in ms, once for each stage in the model's order");
  command
      .add_option("--reduction", arguments.source.reduction,
                  "gradient reduction of a stage over replicas, ms")
      ->check(real_number(0, most_milliseconds));
  command.add_option("--tied-sum", arguments.source.tied_sum, "sum of the tied weight's gradients, ms")
      ->check(real_number(0, most_milliseconds));
  command.add_option("--optimizer", arguments.source.optimizer, "optimizer step of a rank, ms")
      ->check(real_number(0, most_milliseconds));
  command.add_option("--steps", arguments.steps, "steps to replay (default 10)")
      ->check(whole_number(1, most_steps));
  command.add_option("--first-step", arguments.first_step, "the first step's number (default 0)")
      ->check(whole_number(0, most_steps));
  command.add_option("--every", arguments.every, "print every so many steps (default 1)")
      ->check(whole_number(1, most_steps));
  command.add_option("--disturb", arguments.disturbances,
                     "what goes wrong, any number of times: \"step 200.. rank 5 slower 20%\", "
                     "\"link 3->4 +5ms\", \"rank 2 host +1ms\", \"rank 0 data +50ms\", "
                     "\"every 100 evaluation pause 400ms\"");
  command.add_option("--action-noise", arguments.action_sigma, "sigma of every action's time, percent")
      ->check(real_number(0, 200));
  command.add_option("--rank-noise", arguments.rank_sigma, "sigma of a rank's time in a step, percent")
      ->check(real_number(0, 200));
  command
      .add_option("--correlation", arguments.correlation,
                  "of a rank's noise from step to step, 0 to 0.999 (default 0)")
      ->check(real_number(0, 0.999));
  command.add_option("--seed", arguments.seed, "of the noise (default 1)")
      ->check(whole_number(0, std::numeric_limits<int64_t>::max()));
  command.add_flag("--sleep", arguments.sleeping,
                   "in real time: actions sleep; under mpirun each rank is a process");
  command
      .add_option("--message-bytes", arguments.message_bytes, "bytes that a message really moves (default 1)")
      ->check(whole_number(1, int64_t{1} << 32U));
  command
      .add_option(
          "--budget", arguments.budget,
          "watch a job's replay by the [bubble_budget] of this file, and act on it at step boundaries")
      ->type_name("FILE");
  command.add_option("--stamps", arguments.stamps_path,
                     "write when every instruction ran to this file (CSV), of the steps that are printed");
  command.parse_complete_callback([&command, &arguments] {
    check_options(command, arguments);
    arguments.command = given_command(command);
  });
}

int run_replay_command(const ReplayArguments& arguments, std::ostream& out) {
  // Opened before the work, so that a wrong path costs nothing.
  std::optional<data::FileWriter> stamps;
  if (!arguments.stamps_path.empty() && launched_rank() == 0) stamps.emplace(arguments.stamps_path);
  const bool job = !arguments.source.job.file.empty();
  const ReplaySource source = job ? job_source(arguments.source) : schedule_source(arguments.source);
  if (!arguments.budget.empty()) return run_budget_replay(arguments, source, out);
  const Program& program = source.program;
  const runtime::ReplayTimes times = replay_times(arguments, program, source.costs);
  replay::ReplayOptions options;
  options.first_step = arguments.first_step;
  options.steps = arguments.steps;
  options.sleeping = arguments.sleeping;
  options.message_bytes = arguments.message_bytes;
  if (source.rolling) options.rolling = &*source.rolling;
  const std::unique_ptr<transport::World> mpi = launched_world(program.schedule.ranks, arguments.command);
  if (mpi && !arguments.sleeping)
    throw ScheduleError("virtual time runs in one process: add --sleep, or start without a launcher");
  if (mpi && source.rolling)
    throw ScheduleError(
        "ranks that are processes align their clocks between two steps, and those of an asynchronous "
        "schedule overlap: "
        "start without a launcher");
  if (mpi && times.disturbs_links())
    throw ScheduleError("a real link cannot be disturbed: leave link disturbances out under a launcher");
  if (mpi && mpi->rank() != 0) {
    const transport::AbortOnUnwind abort(*mpi);
    replay::run_replay_rank(*mpi, program, times, options, {});
    return static_cast<int>(ExitCode::finished);
  }
  Report report(arguments, source, out, stamps);
  report.begin(fmt::format("{}; {} steps {}", source.title, arguments.steps,
                           arguments.sleeping ? "asleep, in real time" : "in virtual time"));
  const auto sink = [&](uint64_t step, std::span<const replay::RankStep> ranks) { report.add(step, ranks); };
  if (mpi) {
    const transport::AbortOnUnwind abort(*mpi);
    replay::run_replay_rank(*mpi, program, times, options, sink);
  } else {
    replay::run_replay(program, times, options, sink);
  }
  report.end(source.rolling ? measure_steady_state(source.rolling->window,
                                                   simulate(source.rolling->window, source.costs))
                                  .step_time
                            : measure(program, simulate(program, source.costs)).step_time);
  return static_cast<int>(ExitCode::finished);
}

CLI::App* add_replay(CLI::App& parent, int& exit_code) {
  auto arguments = std::make_shared<ReplayArguments>();
  CLI::App* command = parent.add_subcommand(
      "replay", "Rehearse a pipeline: the real executor and messages, stages that only take their time");
  add_replay_options(*command, *arguments);
  command->footer(
      "Examples:\n"
      "  penstock replay job.toml --profile profile.json --disturb 'step 5.. rank 2 slower 20%'\n"
      "  penstock replay --pipeline 8 --micro-batches 80 --steps 1000 --every 100 --rank-noise 2\n"
      "  penstock replay --schedule zbv --pipeline 4 --micro-batches 8 --disturb 'step 5.. rank 2 slower "
      "20%'\n"
      "  penstock replay --pipeline 4 --micro-batches 8 --costs 20,20,20 --sleep        # in real time\n"
      "  mpirun -n 4 penstock replay --pipeline 4 --micro-batches 8 --sleep             # as processes");
  command->callback([arguments, &exit_code] {
    exit_code = run_command([&] { return run_replay_command(*arguments, std::cout); });
  });
  return command;
}

}  // namespace penstock::commands
