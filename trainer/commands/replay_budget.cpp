#include "trainer/commands/replay_budget.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <ostream>
#include <utility>

#include <fmt/format.h>

#include "parallel/planner/rank_memory.h"
#include "parallel/schedule/schedule.h"
#include "trainer/accounting/accountant.h"
#include "trainer/budget/controller.h"
#include "trainer/job/budget_file.h"
#include "trainer/job/exit_code.h"
#include "trainer/replay/replay_run.h"
#include "trainer/replay/step_summary.h"

namespace penstock::commands {

namespace {

using budget::Arrangement;
using budget::BudgetEvent;
using budget::ControllerOptions;
using schedule::ScheduleError;

constexpr double millisecond = 1e-3;

/// A job's pipeline in one arrangement, ready to be replayed.
class Arranged {
 public:
  Arranged(const Arrangement& arrangement, const ControllerOptions& options, const ReplayArguments& arguments)
      : simulated_(arrangement, options.machine, options.workloads[arrangement.workload].micro_batches,
                   options.workloads[arrangement.workload].model.tied_embeddings),
        program_(program(options)),
        times_(replay_times(arguments, program_, costs_)),
        accountant_(program_),
        summary_(program_) {}

  /// Replays steps; `sink` takes each with its account.
  template <class Sink>
  void run(uint64_t first, uint64_t steps, int64_t message_bytes, Sink sink) {
    replay::ReplayOptions options;
    options.first_step = first;
    options.steps = steps;
    options.message_bytes = message_bytes;
    std::optional<double> end;
    replay::run_replay(
        program_, times_, options, [&](uint64_t step, std::span<const replay::RankStep> ranks) {
          std::vector<accounting::RankTimes> times;
          double begin = std::numeric_limits<double>::infinity();
          for (const replay::RankStep& rank : ranks) {
            times.push_back(replay::rank_times(rank));
            begin = std::min(begin, rank.times.begin);
          }
          const accounting::StepAccount& account = accountant_.account(times, end.value_or(begin));
          end = account.end;
          const accounting::StepFigures figures = figures_of(account, accountant_.stages_by_rank());
          sink(budget::observe(static_cast<int64_t>(step), {&account, 1}, figures, simulated_),
               summary_.add(step, ranks));
        });
  }

 private:
  schedule::Program program(const ControllerOptions& options) {
    const Arrangement& arrangement = simulated_.arrangement();
    const planner::ModelCosts& model = options.workloads[arrangement.workload].model;
    costs_ =
        layout_costs(planner::UnitSums(model), options.machine, simulated_.schedule(), arrangement.layout);
    schedule::LoweringOptions lowering;
    lowering.reduce_gradients = options.machine.replicas > 1;
    lowering.tied_embeddings = model.tied_embeddings;
    lowering.receive_lead = sufficient_receive_lead(simulated_.schedule(), costs_, lowering);
    return lower(simulated_.schedule(), costs_, lowering);
  }

  budget::SimulatedArrangement simulated_;
  schedule::Costs costs_;
  schedule::Program program_;
  runtime::ReplayTimes times_;
  accounting::Accountant accountant_;
  replay::ReplayAccount summary_;
};

}  // namespace

int run_budget_replay(const ReplayArguments& arguments, const ReplaySource& source, std::ostream& out) {
  if (!source.arranged) throw ScheduleError("--budget arranges a job's units: name the job file");
  if (source.program.schedule.copies > 1) {
    throw ScheduleError(
        fmt::format("--budget rearranges one copy of the weights; schedule {} runs two: leave it out",
                    source.program.schedule.name));
  }
  if (source.rolling) {
    throw ScheduleError(
        fmt::format("--budget rearranges synchronous schedules; {} is asynchronous: leave it out",
                    source.program.schedule.name));
  }
  if (arguments.sleeping || !arguments.stamps_path.empty())
    throw ScheduleError("--budget replays in virtual time, without --sleep and --stamps");
  ControllerOptions options = *source.arranged;
  options.budget = read_budget(arguments.budget);
  budget::Controller controller(options);
  auto pipeline = std::make_unique<Arranged>(options.first, options, arguments);
  out << fmt::format("{}; {} steps in virtual time under {}\n", source.title, arguments.steps,
                     arguments.budget)
      << replay::summary_head();
  uint64_t step = arguments.first_step;
  const uint64_t last = step + arguments.steps;
  double seconds = 0;
  auto chunk = static_cast<uint64_t>(options.budget.warmup_steps);
  while (step < last) {
    const uint64_t steps = std::min(chunk, last - step);
    std::optional<Arrangement> next;
    pipeline->run(step, steps, arguments.message_bytes,
                  [&](const budget::StepObservation& seen, const replay::StepSummary& summary) {
                    seconds += seen.seconds;
                    if ((summary.step - arguments.first_step) % arguments.every == 0)
                      out << replay::summary_line(summary);
                    budget::Verdict verdict = controller.observe(seen);
                    for (const BudgetEvent& event : verdict.events)
                      out << fmt::format("step {}: {}", event.step, event.text);
                    if (verdict.arrangement) next = std::move(verdict.arrangement);
                    out << std::flush;
                  });
    step += steps;
    chunk = static_cast<uint64_t>(options.budget.window_steps);
    if (next) pipeline = std::make_unique<Arranged>(*next, options, arguments);
  }
  out << fmt::format("mean {:.3f} ms a step without pauses; at the end: {}\n",
                     seconds / static_cast<double>(arguments.steps) / millisecond,
                     to_string(controller.running()));
  return static_cast<int>(ExitCode::finished);
}

}  // namespace penstock::commands
