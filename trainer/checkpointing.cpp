#include "trainer/checkpointing.h"

#include <array>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "trainer/checkpoint/checkpoint_error.h"
#include "trainer/checkpoint/room.h"
#include "trainer/copy_check.h"
#include "trainer/elapsed.h"
#include "trainer/job/write_job.h"
#include "trainer/model_state.h"
#include "trainer/run_matmul_plans.h"
#include "trainer/version/version.h"

namespace penstock {
namespace {

// Adds the seconds of its life to a sum.
class Stopwatch {
 public:
  explicit Stopwatch(double& sum) : sum_(sum) {}
  ~Stopwatch() { sum_ += seconds_since(begin_); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& sum_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

BackgroundSave::Keep kept(const CheckpointSection& section) {
  return {static_cast<int>(section.keep_last), section.keep_every_steps};
}

}  // namespace

Checkpointing::Checkpointing(const RankContext& context, const Job& began, const RunPaths& paths,
                             uint64_t attempt, std::string data_fingerprint, const std::string& matmul_plans,
                             const NumericsGuard& guard, const BudgetSteering& steering)
    : context_(context),
      began_(began),
      folder_(paths.checkpoints().string()),
      data_fingerprint_(std::move(data_fingerprint)),
      matmul_plans_(matmul_plans.empty() ? nlohmann::json() : nlohmann::json::parse(matmul_plans)),
      guard_(guard),
      steering_(steering),
      background_(saves_in_background(context.job)),
      writer_(folder_, attempt),
      save_(context.world, writer_, kept(context.job.checkpoint)) {
  if (background_ || !on_processor()) snapshot_.emplace(context_.engine->rank().memory().device());
  if (background_) snapshot_->reserve(StateSnapshot::bytes(sources()));
  check_room();
}

void Checkpointing::check_room() {
  std::array<int64_t, 1> bytes{static_cast<int64_t>(checkpoint::shard_bytes(sources()))};
  context_.world.all_reduce(bytes, transport::Reduction::sum);
  if (!context_.leads()) return;
  const std::string warning = checkpoint::check_space(folder_, static_cast<uint64_t>(bytes[0]),
                                                      static_cast<int>(context_.job.checkpoint.keep_last));
  if (!warning.empty()) context_.reports.warning(warning);
}

bool Checkpointing::on_processor() const {
  return context_.engine->rank().memory().device().kind() == DeviceKind::cpu;
}

std::vector<checkpoint::Source> Checkpointing::sources() const {
  // Replicas hold the same bits; the first one's are saved. Those that share an optimizer each save their
  // own.
  const bool same = context_.engine->plan().reduction.shards() == 1;
  if (same && context_.engine->place().replica != 0) return {};
  return model_sources(context_.engine->rank().parameters());
}

bool Checkpointing::due(const Job& job, int64_t step) {
  const int64_t every = job.checkpoint.every_steps;
  return step == job.run.steps || (every > 0 && step % every == 0);
}

void Checkpointing::wish(const StepSummary& result, Decision& wishes) {
  if (held_) {
    const std::optional<double> seconds = context_.engine->held_seconds();
    held_ = !seconds;
    stall_ += seconds.value_or(0);
  }
  wishes.save |= due(context_.job, result.step);
  wishes.saving |= save_.busy() || held_;
  // The last save failed and the job wants to know: leave now rather than train on without a net.
  if (failure_.empty() || wishes.finished) return;
  if (!fenced_ && context_.job.checkpoint.on_save_error != OnSaveError::stop) return;
  wishes.stop = true;
  wishes.code = failure_code_;
  wishes.reason = failure_;
}

void Checkpointing::act(const StepSummary& result, const Decision& decision) {
  const bool ends = decision.stop || decision.finished;
  const bool advances = save_.in_flight() && !decision.saving;
  if (!advances && !decision.save && !ends) return;
  const watchdog::Progress::Doing at(context_.progress, watchdog::Phase::save);
  const accounting::HostTimes::Doing doing(context_.host, accounting::Part::checkpoint);
  if (advances) {
    std::optional<BackgroundSave::Outcome> outcome;
    {
      const Stopwatch watch(stall_);
      outcome = save_.advance();
    }
    if (outcome) conclude(*outcome);
  }
  if (decision.save) save(result.step, ends || !background_);
  if (!ends) {
    // Units are about to move: what they leave behind must have been copied.
    if (held_ && !decision.arrangement.empty()) snapshot_->wait_for_copy();
    return;
  }
  if (save_.in_flight()) conclude(save_.finish());
  // Only rank 0 knows of every failure.
  failure_ = context_.world.broadcast(failure_, 0);
  std::array<int64_t, 1> code{context_.leads() ? static_cast<int64_t>(failure_code_) : 0};
  context_.world.all_reduce(code, transport::Reduction::sum);
  failure_code_ = static_cast<ExitCode>(code[0]);
}

void Checkpointing::settle() {
  if (save_.in_flight()) conclude(save_.finish());
}

void Checkpointing::rearranged() {
  held_ = false;
  if (!background_) return;
  settle();
  snapshot_->reserve(StateSnapshot::bytes(sources()));
}

void Checkpointing::save(int64_t step, bool waits) {
  if (save_.in_flight()) wait_for_earlier(step);
  stall_ = 0;
  std::string failure;
  BackgroundSave::Outcome outcome;
  {
    const Stopwatch watch(stall_);
    failure = begin(step, waits);
    if (failure.empty() && waits) outcome = save_.finish();
  }
  if (!failure.empty()) {
    report_failure(step, failure);
  } else if (waits) {
    conclude(outcome);
  }
  if (!snapshot_ || background_) return;
  snapshot_->wait();
  snapshot_->reserve(0);
}

void Checkpointing::wait_for_earlier(int64_t step) {
  const int64_t earlier = save_.step();
  double waited = 0;
  BackgroundSave::Outcome outcome;
  {
    const Stopwatch watch(waited);
    outcome = save_.finish();
  }
  stall_ += waited;
  if (context_.leads()) {
    context_.reports.note(
        fmt::format("step {}: saving waited {:.2f} s until the checkpoint of step {} was written", step,
                    waited, earlier));
    context_.reports.event("save_waited", step, {{"for_step", earlier}, {"seconds", waited}});
  }
  conclude(outcome);
}

std::string Checkpointing::begin(int64_t step, bool waits) {
  runtime::PipelineEngine& engine = *context_.engine;
  engine.stream().synchronize();  // of whatever looked at the step
  std::string failure;
  if (engine.plan().training.schedule.copies > 1) {
    if (const auto found = differing_copies(engine, context_.world)) failure = found->text;
  }
  // A copy that a device or a link has damaged is unfit to be saved.
  failure_code_ = failure.empty() ? ExitCode::storage : ExitCode::numerics;
  if (!failure.empty()) return failure;
  std::vector<checkpoint::Source> mine = sources();
  std::function<void()> wait_for_copy = [] {};
  // Nothing changes the processor's own memory while everybody waits.
  if (snapshot_ && !mine.empty() && !(waits && on_processor())) {
    if (!background_) snapshot_->reserve(StateSnapshot::bytes(mine));
    const Event& copied = snapshot_->take(mine, engine.stream());
    wait_for_copy = [this] { snapshot_->wait(); };
    held_ = !waits;
    if (held_) engine.hold_update_for(copied);
  }
  return save_.start(manifest(step), std::move(mine), std::move(wait_for_copy));
}

checkpoint::Manifest Checkpointing::manifest(int64_t step) const {
  checkpoint::Manifest manifest;
  manifest.step = step;
  if (!context_.leads()) return manifest;
  manifest.samples = static_cast<uint64_t>(step) * static_cast<uint64_t>(context_.job.batch.global);
  manifest.data_fingerprint = data_fingerprint_;
  manifest.job = to_toml(began_);
  manifest.program = fmt::format("penstock {} ({})", build_info().version, build_info().git_id);
  guard_.add_state(manifest.state);
  if (!matmul_plans_.is_null()) manifest.state[matmul_plans_state] = matmul_plans_;
  // Where nothing was arranged otherwise there is nothing to go on with.
  if (nlohmann::json saved = steering_.saved(); !saved.is_null()) manifest.state["budget"] = std::move(saved);
  return manifest;
}

void Checkpointing::conclude(const BackgroundSave::Outcome& outcome) {
  fenced_ |= outcome.fenced;
  if (!outcome.failure.empty()) {
    failure_code_ = outcome.unfit ? ExitCode::numerics : ExitCode::storage;
    return report_failure(outcome.step, outcome.failure);
  }
  failure_.clear();
  RunReports& reports = context_.reports;
  reports.status().last_checkpoint = outcome.step;
  if (!context_.leads()) return;
  save_seconds_ = outcome.seconds;
  reports.note(fmt::format("step {}: saved {}/step-{:08} ({:.1f} MiB in {:.2f} s{})", outcome.step, folder_,
                           outcome.step, static_cast<double>(outcome.bytes) / (1 << 20), outcome.seconds,
                           stall_ < outcome.seconds ? fmt::format("; the steps lost {:.3f} s", stall_) : ""));
  reports.event("save", outcome.step,
                {{"bytes", outcome.bytes}, {"seconds", outcome.seconds}, {"stall_seconds", stall_}});
  reports.scalar("checkpoint/write_seconds", outcome.seconds, outcome.step);
  reports.scalar("checkpoint/stall_seconds", stall_, outcome.step);
  reports.publish();
  for (const std::string& line : outcome.deleted) reports.event("prune", outcome.step, {{"what", line}});
}

void Checkpointing::report_failure(int64_t step, const std::string& failure) {
  failure_ = fmt::format("step {}: saving failed: {}", step, failure);
  if (!context_.leads()) return;
  context_.reports.warning(failure_);
  context_.reports.event("save_failed", step, {{"reason", failure_}});
}

}  // namespace penstock
