#include "trainer/training.h"

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "data/file_writer.h"
#include "kernels/transport/clock_alignment.h"
#include "parallel/runtime/pipeline_engine.h"
#include "trainer/arranged_job.h"
#include "trainer/backend.h"
#include "trainer/budget_steering.h"
#include "trainer/checkpointing.h"
#include "trainer/corpus.h"
#include "trainer/elapsed.h"
#include "trainer/job/write_job.h"
#include "trainer/job_costs.h"
#include "trainer/job_plan.h"
#include "trainer/memory_limit.h"
#include "trainer/memory_report.h"
#include "trainer/numerics_guard.h"
#include "trainer/plan_json.h"
#include "trainer/plan_text.h"
#include "trainer/processor_share.h"
#include "trainer/rank_context.h"
#include "trainer/rearrangement.h"
#include "trainer/recompute_check.h"
#include "trainer/replica_check.h"
#include "trainer/report/environment.h"
#include "trainer/report/matmul_roof.h"
#include "trainer/resume.h"
#include "trainer/rollback.h"
#include "trainer/run_account.h"
#include "trainer/run_folder.h"
#include "trainer/run_matmul_plans.h"
#include "trainer/run_reports.h"
#include "trainer/same_job.h"
#include "trainer/shared_folder.h"
#include "trainer/step_accounting.h"
#include "trainer/step_batches.h"
#include "trainer/step_loop.h"
#include "trainer/step_report.h"
#include "trainer/step_trace.h"
#include "trainer/stop_requests.h"
#include "trainer/train_step.h"
#include "trainer/validation.h"
#include "trainer/vote.h"

namespace penstock {
namespace {

ExitCode conclude(const RankContext& context, const Decision& decision, const Checkpointing& checkpointing) {
  const std::string& save_failure = checkpointing.failure();
  const Job& job = context.job;
  RunReports& reports = context.reports;
  report::Status& status = reports.status();
  ExitCode code = ExitCode::finished;
  if (decision.stop && !(decision.finished && decision.code == ExitCode::stopped)) code = decision.code;
  status.reason = decision.reason;
  if (!save_failure.empty() && code != ExitCode::numerics) {
    code = checkpointing.failure_code();  // the last save is what a stopped or finished run leaves behind
    status.reason = save_failure;
  }
  using State = report::Status::State;
  status.state = code == ExitCode::finished  ? State::finished
                 : code == ExitCode::stopped ? State::stopped
                                             : State::failed;
  status.exit_code = static_cast<int>(code);
  reports.publish();
  reports.finish_console();
  reports.event("end", status.step, {{"exit_code", status.exit_code.value()}, {"reason", status.reason}});
  if (code == ExitCode::finished) {
    reports.note(fmt::format("finished {} steps; everything is in {}/{}", job.run.steps, job.run.folder,
                             job.run.name));
  } else if (code == ExitCode::stopped) {
    reports.note(fmt::format("stopped after step {} of {} ({}); the same command goes on", status.step,
                             job.run.steps, status.reason));
  } else {
    reports.failure(fmt::format("ended after step {} of {}: {}", status.step, job.run.steps, status.reason));
  }
  return code;
}

// Steps may be under way when the host fails: they end before the micro-batches that they read go away.
Decision run_steps(const StepLoop& loop, int64_t first, const RankContext& context) {
  try {
    return loop.run(first, context.job.run.steps);
  } catch (const std::exception& error) {
    context.world.abort(error.what());
    context.engine->run_out();
    throw;
  }
}

// What rank 0 alone does before the others start: it holds the folder, counts the attempt, and chooses the
// checkpoint.
struct Opening {
  std::unique_ptr<RunFolder> folder;
  checkpoint::Claim claim;
  ResumePoint point;
  std::string fingerprint;
  double check_seconds = 0;  ///< what it took to find and verify the checkpoint
};

Opening open_run(const Job& job, const RunPaths& paths, const Corpus& corpus, transport::World& world,
                 bool accept_changes, watchdog::Progress& progress) {
  Opening opening;
  if (world.rank() == 0) {
    opening.folder = std::make_unique<RunFolder>(paths.root());
    opening.claim = checkpoint::claim_attempt(paths.checkpoints().string());
    progress.holds_folder(opening.claim.attempt);
    opening.fingerprint = corpus.fingerprint();
  }
  std::array<int64_t, 1> attempt{static_cast<int64_t>(opening.claim.attempt)};
  world.all_reduce(attempt, transport::Reduction::maximum);
  opening.claim.attempt = static_cast<uint64_t>(attempt[0]);
  check_shared_folder(world, paths.checkpoints().string(), opening.claim.attempt);
  const watchdog::Progress::Doing at(progress, watchdog::Phase::load);
  const auto start = std::chrono::steady_clock::now();
  opening.point = find_resume_point(job, paths, opening.fingerprint, accept_changes, world);
  opening.check_seconds = seconds_since(start);
  return opening;
}

// The run's memory, and where the job left something open the plan that was made.
std::string plan_file(const PlannedJob& planned, const MemoryReport& memory) {
  nlohmann::ordered_json file = to_json(memory);
  if (planned.plan) {
    file["plan"] = to_json(*planned.plan, planned.question);
    file["plan"]["source"] = planned.note;
  }
  return file.dump(2) + "\n";
}

// What the run's own steps refine. A profile that cannot be used costs a run nothing but the comparison.
// `sizes`: of micro-batches that the run may take, the job's own first.
JobCosts costs_to_refine(const Job& job, const std::vector<int64_t>& sizes, Backend& backend, bool leads) {
  if (!leads) return {};
  const auto costs_of = [&](int64_t size) {
    Job sized = job;
    sized.batch.micro = size;
    try {
      return job_costs(sized, backend, nullptr);
    } catch (const planner::ProfileError& error) {
      return costs_by_formula(sized, backend, std::nullopt, error.what());
    }
  };
  JobCosts costs = costs_of(sizes.front());
  for (size_t i = 1; i < sizes.size(); ++i) costs.other_sizes.push_back(costs_of(sizes[i]).model);
  return costs;
}

// How a run goes on whose budget had arranged it otherwise, if it is planned as it was. `sizes`: of
// micro-batches that it may take.
budget::Arrangement arrangement_in_force(const ResumePoint& point, const budget::Arrangement& planned,
                                         size_t sizes, nlohmann::json& saved, RunReports& reports) {
  if (!point.checkpoint) return planned;
  const auto& state = point.checkpoint->manifest().state;
  const auto found = state.find("budget");
  if (found == state.end()) return planned;
  const auto settled = budget::Controller::settled(found->second, planned);
  if (!settled || settled->workload >= sizes) {
    reports.note(
        fmt::format("the run is planned otherwise than it began; what its bubble budget had changed "
                    "is given up: {}",
                    to_string(planned)));
    return planned;
  }
  saved = found->second;
  return *settled;
}

ExitCode already_complete(const Job& job, const ResumePoint& point, RunReports& reports) {
  reports.note(
      fmt::format("already complete at step {} of {}; raise run.steps to go on", point.step, job.run.steps));
  reports.status().state = report::Status::State::finished;
  reports.status().exit_code = 0;
  reports.publish();
  return ExitCode::finished;
}

}  // namespace

ExitCode train(Job asked, const TrainOptions& options, transport::World& world, StopSwitch* stop,
               watchdog::Progress* watched) {
  watchdog::Progress unwatched;
  watchdog::Progress& progress = watched != nullptr ? *watched : unwatched;
  progress.starts("comparing program and job");
  check_same_build(own_build(), world);
  check_same_job(asked, world);
  const auto tokenizer = Corpus::open_tokenizer(asked);
  Backend backend = make_backend(asked, world);
  progress.starts("planning");
  const PlannedJob planned = planned_job(asked, backend, &world);
  Job job = planned.job;
  runtime::PipelinePlan plan = runtime::plan_pipeline(planned.request);
  const runtime::Place place = plan.topology.place(world.rank());
  progress.starts("opening data and run folder");
  Corpus corpus(job, tokenizer.get(), needs_tokens(job, plan, place.pipeline));
  const RunPaths paths(std::filesystem::path(job.run.folder) / job.run.name);
  Opening opening = open_run(job, paths, corpus, world, options.accept_changes, progress);
  ResumePoint& point = opening.point;
  const bool resumed = point.checkpoint.has_value();
  const bool leads = world.rank() == 0;

  progress.holds_folder(opening.claim.attempt);
  RunReports reports(paths, job, world.rank(), opening.claim.attempt,
                     resumed ? std::optional<int64_t>(point.step) : std::nullopt);
  for (const std::string& note : opening.claim.notes) reports.note(note);
  for (const std::string& note : point.notes) reports.warning(note);
  if (stop != nullptr && leads) {
    for (const std::string& note : stop->discard_old()) reports.warning(note);
  }
  if (point.step >= job.run.steps) return already_complete(job, point, reports);
  reports.publish();

  progress.starts("arranging and measuring the machine");
  const std::string matmul_plans = settle_matmul_plans(
      backend, plan, point.checkpoint ? &point.checkpoint->manifest() : nullptr, world, paths, reports);
  const budget::Arrangement first = arrangement_of(job, plan);
  BudgetSteering::Setup setup;
  const std::vector<int64_t> sizes = micro_batch_sizes(job, *backend.device);
  setup.running = arrangement_in_force(point, first, sizes.size(), setup.saved, reports);
  setup.acts = options.acts;
  JobCosts costs = costs_to_refine(job, sizes, backend, leads);
  if (leads) setup.options = controller_options(job, plan, costs);
  if (setup.running != first) {
    job = arranged_job(job, setup.running);
    job.batch.micro = sizes.at(setup.running.workload);
    runtime::PipelineRequest request = pipeline_request(job);
    request.costs = planned.request.costs;
    plan = runtime::plan_pipeline(request);
    if (needs_tokens(job, plan, place.pipeline) && !corpus.opened())
      corpus = Corpus(job, tokenizer.get(), true);
  }
  MemoryReport memory = memory_report(job, backend, plan);
  const bool in_one_process = world.hosts().transport() == "inproc";
  check_memory_limit(memory, asked, *backend.device, in_one_process);
  // Ranks that share processors measure at the same time, as they will compute at the same time.
  std::array<double, 1> roof{measure_matmul_roof(*backend.device, backend.math, plan.ranks.front().compute)};
  world.all_reduce(roof, transport::Reduction::sum);
  if (leads) {
    data::write_file(paths.job().string(), to_toml(planned.job));
    data::write_file(paths.environment().string(), report::environment_text(options.command_line));
    data::write_file(paths.plan().string(), plan_file(planned, memory));
    if (!backend.placement.empty()) reports.note(backend.placement);
    reports.note(summary(memory, *backend.device, roof[0]));
    const std::string outside = outside_warning(memory, job, in_one_process ? world.size() : 1);
    if (!outside.empty()) reports.warning(outside);
    if (planned.plan) reports.note(fmt::format("planned: {}; {}", plan_line(*planned.plan), planned.note));
    if (setup.running != first) reports.note(fmt::format("arranged since: {}", to_string(setup.running)));
    if (resumed) reports.note(fmt::format("resuming from {}", point.checkpoint->path()));
    reports.event("start", point.step,
                  {{"resumed", resumed}, {"matmul_roof_flops", roof[0]}, {"ranks", world.size()}});
  }
  if (leads) {
    for (const std::string& warning : corpus.warnings()) reports.warning(warning);
  }
  const ProcessorShare share = processor_share(job.parallel.threads, world);
  if (leads && share.crowded()) {
    reports.warning(fmt::format(
        "{}: times are of an oversubscribed machine, and what a profile says of it is no prediction",
        share.text()));
  }
  progress.starts("taking memory and initialising");
  auto engine =
      std::make_unique<runtime::PipelineEngine>(*backend.device, backend.math, world, std::move(plan));
  engine->rank().initialise(engine->stream());
  accounting::HostTimes host(*backend.device->options().clock);
  const RankContext context{job, world, engine, corpus, reports, host, progress};
  follow_engine(context);
  StepBatches batches(job, corpus, place.replica, *backend.device);
  NumericsGuard guard(context, batches);
  ReplicaCheck replica_check(context);
  RecomputeCheck recompute_check(context, batches, options.at_step);
  const std::string origin = resumed ? point.checkpoint->path() : "";
  if (resumed) {
    const watchdog::Progress::Doing at(progress, watchdog::Phase::load);
    const auto start = std::chrono::steady_clock::now();
    restore(point.checkpoint, context, guard);
    reports.event("loaded", point.step,
                  {{"path", point.checkpoint->path()},
                   {"check_seconds", opening.check_seconds},
                   {"load_seconds", seconds_since(start)}});
    point.checkpoint.reset();  // unmaps its files
  }
  progress.starts("preparing the first step");
  Rearrangement rearrangement({job, asked, backend, world, engine, corpus, tokenizer.get(), batches, memory},
                              planned.request.costs, sizes, options.at_rearrangement);
  if (leads) setup.options.machine.memory_limit = rearrangement.room();
  BudgetSteering steering(context, rearrangement, std::move(setup));
  Checkpointing checkpointing(context, planned.job, paths, opening.claim.attempt, opening.fingerprint,
                              matmul_plans, guard, steering);
  Rollback rollback(context, paths, guard, origin, [&] { checkpointing.settle(); });
  StopRequests requests(
      stop, reports, [&] { return checkpointing.save_seconds(); },
      [&](const std::string& request, int64_t step) { steering.by_hand(request, step); });
  Validation validation(context);
  StepReport step_report(job, roof[0], point.step, reports);
  transport::ClockAlignment clocks(world.hosts(), backend.messenger());
  clocks.measure();
  StepTrace step_trace(context, paths, clocks);
  RunAccount run_account(engine->plan(), job, std::move(costs), share);
  StepAccounting step_accounting(context, backend.messenger(), clocks, step_report, run_account, steering);
  steering.follow({&checkpointing, &step_accounting});
  StepLoop loop;
  TrainStep train_step(context, options.at_step, options.at_read, batches, guard, recompute_check,
                       step_accounting);
  loop.train_step = [&](int64_t step, bool pauses) { return train_step(step, pauses); };
  loop.follows = [&] { return train_step.follows(); };
  loop.roll_back = [&](const StepSummary& result, Decision& decision) {
    return rollback.carry_out(result, decision);
  };
  loop.vote = [&](const Decision& wishes) { return vote(world, wishes); };
  loop.participants = {&recompute_check, &guard,      &replica_check, &requests,      &step_report,
                       &step_accounting, &step_trace, &validation,    &checkpointing, &steering};
  const Decision decision = run_steps(loop, point.step, context);
  progress.ends();
  if (const int64_t graphs = engine->captured_graphs(); leads && graphs > 0)
    reports.note(fmt::format("{} actions of rank 0 were launched as graphs", graphs));
  if (leads) {
    run_account.conclude(reports.status().step, memory, in_one_process, reports);
    run_account.advise(reports.status().step, job, reports);
  }
  return conclude(context, decision, checkpointing);
}

}  // namespace penstock
