#include "trainer/training.h"

#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "data/file_writer.h"
#include "model/learning_rate.h"
#include "parallel/runtime/local_engine.h"
#include "trainer/backend.h"
#include "trainer/checkpointing.h"
#include "trainer/corpus.h"
#include "trainer/job/write_job.h"
#include "trainer/memory_report.h"
#include "trainer/model_state.h"
#include "trainer/numerics_guard.h"
#include "trainer/report/environment.h"
#include "trainer/report/matmul_roof.h"
#include "trainer/resume.h"
#include "trainer/run_folder.h"
#include "trainer/run_reports.h"
#include "trainer/step_batches.h"
#include "trainer/step_loop.h"
#include "trainer/step_report.h"
#include "trainer/stop_requests.h"
#include "trainer/validation.h"

namespace penstock {
namespace {

std::optional<std::chrono::seconds> wall_time(const Job& job) {
  if (job.run.max_wall_time == 0) return std::nullopt;
  return std::chrono::seconds(job.run.max_wall_time);
}

// One optimizer step; the next one's data is read while the device works.
StepSummary train_step(const Job& job, runtime::LocalEngine& engine, StepBatches& batches, int64_t step) {
  const auto start = std::chrono::steady_clock::now();
  const BatchSet& set = batches.of(step);
  StepSummary summary;
  summary.step = step + 1;
  summary.learning_rate = learning_rate(job.learning_rate, job.run.steps, summary.step);
  summary.tokens = set.target_tokens(set.bands().size());
  engine.start_step({static_cast<uint64_t>(step), summary.learning_rate, summary.tokens}, set.bands());
  if (summary.step < job.run.steps) batches.prefetch(step + 1);
  const model::StepResult result = engine.finish_step();
  summary.loss = result.loss_sum / static_cast<double>(summary.tokens);
  summary.gradient_norm = result.gradient_norm;
  summary.applied = result.applied;
  summary.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return summary;
}

ExitCode conclude(RunReports& reports, const Job& job, const Decision& decision,
                  const std::string& save_failure) {
  report::Status& status = reports.status();
  ExitCode code = ExitCode::finished;
  if (decision.stop && !(decision.finished && decision.code == ExitCode::stopped)) code = decision.code;
  status.reason = decision.reason;
  if (!save_failure.empty() && code != ExitCode::numerics) {
    code = ExitCode::storage;  // the last save is what a stopped or finished run leaves behind
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
    reports.note(fmt::format("ended after step {} of {}: {}", status.step, job.run.steps, status.reason));
  }
  return code;
}

}  // namespace

ExitCode train(Job job, const TrainOptions& options) {
  const auto tokenizer = Corpus::open_tokenizer(job);
  Corpus corpus(job, tokenizer.get());
  const RunFolder folder(std::filesystem::path(job.run.folder) / job.run.name);
  StopSwitch stop(folder.control(), wall_time(job));
  const checkpoint::Claim claim = checkpoint::claim_attempt(folder.checkpoints().string());
  const std::string fingerprint = corpus.train().fingerprint();
  ResumePoint point = find_resume_point(job, folder, fingerprint, options.accept_changes);
  const bool resumed = point.checkpoint.has_value();

  RunReports reports(folder, job, claim.attempt, resumed ? std::optional<int64_t>(point.step) : std::nullopt);
  for (const std::string& note : claim.notes) reports.note(note);
  for (const std::string& note : point.notes) reports.warning(note);
  if (point.step >= job.run.steps) {
    reports.note(fmt::format("already complete at step {} of {}; raise run.steps to go on", point.step,
                             job.run.steps));
    reports.status().state = report::Status::State::finished;
    reports.status().exit_code = 0;
    reports.publish();
    return ExitCode::finished;
  }
  reports.publish();
  data::write_file(folder.job().string(), to_toml(job));
  data::write_file(folder.environment().string(), report::environment_text(options.command_line));

  Backend backend = make_backend(job, 0);
  const model::RankConfig config = whole_model_config(job, job.micro_batches());
  const double roof = measure_matmul_roof(*backend.device, backend.math, config.compute);
  const MemoryReport memory = memory_report(job, backend);
  check_memory_limit(memory, job, *backend.device);
  runtime::LocalEngine engine(*backend.device, backend.math, config);
  engine.rank().initialise(engine.stream());
  StepBatches batches(job, corpus);
  NumericsGuard guard(job, engine, batches, reports);
  if (resumed) {
    load_model(*point.checkpoint, engine.rank(), engine.stream());
    guard.spikes().restore(point.checkpoint->manifest().state.at("spike_losses"));
  }
  data::write_file(folder.plan().string(), to_json(memory).dump(2) + "\n");
  reports.note(summary(memory, *backend.device, roof));
  if (resumed) reports.note(fmt::format("resuming from {}", point.checkpoint->path()));
  point.checkpoint.reset();  // unmaps its files
  reports.event("start", point.step, {{"resumed", resumed}, {"matmul_roof_flops", roof}});

  Checkpointing checkpointing(job, folder, claim.attempt, fingerprint, engine, guard.spikes(), reports);
  StopRequests requests(stop, reports, [&] { return checkpointing.save_seconds(); });
  Validation validation(job, engine, corpus, reports);
  StepReport step_report(job, roof, point.step, reports);
  StepLoop loop;
  loop.train_step = [&](int64_t step) { return train_step(job, engine, batches, step); };
  loop.vote = [](const Decision& wishes) { return wishes; };  // one rank
  loop.participants = {&guard, &requests, &step_report, &validation, &checkpointing};
  const Decision decision = loop.run(point.step, job.run.steps);
  return conclude(reports, job, decision, checkpointing.failure());
}

}  // namespace penstock
