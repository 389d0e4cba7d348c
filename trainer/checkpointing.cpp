#include "trainer/checkpointing.h"

#include <array>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "trainer/checkpoint/checkpoint_error.h"
#include "trainer/copy_check.h"
#include "trainer/job/write_job.h"
#include "trainer/model_state.h"
#include "trainer/run_matmul_plans.h"
#include "trainer/version/version.h"

namespace penstock {
namespace {

// Calls act(); the text of its SaveError, or nothing.
template <class Act>
std::string attempt_to(Act&& act) {
  try {
    act();
    return {};
  } catch (const checkpoint::SaveError& error) {
    return error.what();
  }
}

}  // namespace

Checkpointing::Checkpointing(const RankContext& context, const Job& began, const RunPaths& paths,
                             uint64_t attempt, std::string data_fingerprint, const std::string& matmul_plans,
                             SpikeDetector& spikes, const LossScaler& loss_scaler,
                             const BudgetSteering& steering)
    : context_(context),
      began_(began),
      folder_(paths.checkpoints().string()),
      data_fingerprint_(std::move(data_fingerprint)),
      matmul_plans_(matmul_plans.empty() ? nlohmann::json() : nlohmann::json::parse(matmul_plans)),
      spikes_(spikes),
      loss_scaler_(loss_scaler),
      steering_(steering),
      writer_(folder_, attempt) {
  std::array<int64_t, 1> bytes{static_cast<int64_t>(checkpoint::shard_bytes(sources()))};
  context_.world.all_reduce(bytes, transport::Reduction::sum);
  if (context_.leads()) checkpoint::check_space(folder_, static_cast<uint64_t>(bytes[0]));
}

std::vector<checkpoint::Source> Checkpointing::sources() const {
  // Replicas hold the same bits; the first one's are saved.
  if (context_.engine->place().replica != 0) return {};
  return model_sources(context_.engine->rank().parameters());
}

void Checkpointing::wish(const StepSummary& result, Decision& wishes) {
  const int64_t every = context_.job.checkpoint.every_steps;
  wishes.save |= wishes.finished || (every > 0 && result.step % every == 0);
  // The last save failed and the job wants to know: leave now rather than train on without a net.
  if (!failure_.empty() && context_.job.checkpoint.on_save_error == OnSaveError::stop) {
    wishes.stop = true;
    wishes.code = ExitCode::storage;
    wishes.reason = failure_;
  }
}

void Checkpointing::act(const StepSummary& result, const Decision& decision) {
  if (!decision.save) return;
  const accounting::HostTimes::Doing doing(context_.host, accounting::Part::checkpoint);
  save(result.step);
}

void Checkpointing::save(int64_t step) {
  const auto start = std::chrono::steady_clock::now();
  uint64_t bytes = 0;
  failure_ = write_and_commit(step, bytes);
  save_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (failure_.empty()) {
    conclude(step, bytes);
    return;
  }
  if (context_.leads()) {
    writer_.abandon(step);
    context_.reports.warning(failure_);
    context_.reports.event("save_failed", step, {{"reason", failure_}});
  }
}

// Whatever fails on whichever rank, every rank learns why and nobody waits for the others: the answer is the
// same on all.
std::string Checkpointing::write_and_commit(int64_t step, uint64_t& bytes) {
  transport::World& world = context_.world;
  context_.engine->stream().synchronize();
  std::string failure = differing_copies(*context_.engine, world);
  if (failure.empty()) {
    failure = attempt_to([&] {
      if (context_.leads()) writer_.begin(step);
    });
  }
  failure = world.broadcast(failure, 0);
  std::string entry;
  if (failure.empty()) {
    std::vector<checkpoint::Source> mine = sources();
    failure = attempt_to([&] {
      const std::vector<std::byte> copies =
          copy_to_host(mine, context_.engine->rank().memory().device(), context_.engine->stream());
      if (!mine.empty()) entry = checkpoint::to_text(writer_.write(step, world.rank(), mine));
    });
    // A rank's answer: "+" and its entry, or "-" and its failure.
    const std::vector<std::string> answers = world.gather(failure.empty() ? "+" + entry : "-" + failure);
    if (context_.leads()) {
      std::vector<checkpoint::ShardEntry> entries;
      for (const std::string& answer : answers) {
        if (answer.front() == '-' && failure.empty()) failure = answer.substr(1);
        if (answer.front() == '+' && answer.size() > 1) {
          entries.push_back(checkpoint::shard_entry_from_text(std::string_view(answer).substr(1)));
          bytes += entries.back().shard.bytes;
        }
      }
      if (failure.empty()) failure = attempt_to([&] { writer_.commit(manifest(step), entries); });
    }
    failure = world.broadcast(failure, 0);
  }
  if (failure.empty()) return {};
  return fmt::format("step {}: saving failed: {}", step, failure);
}

checkpoint::Manifest Checkpointing::manifest(int64_t step) const {
  checkpoint::Manifest manifest;
  manifest.step = step;
  manifest.samples = static_cast<uint64_t>(step) * static_cast<uint64_t>(context_.job.batch.global);
  manifest.data_fingerprint = data_fingerprint_;
  manifest.job = to_toml(began_);
  manifest.program = fmt::format("penstock {} ({})", build_info().version, build_info().git_id);
  manifest.state["spike_losses"] = spikes_.state();
  if (loss_scaler_.active()) manifest.state[loss_scale_state] = loss_scaler_.state();
  if (!matmul_plans_.is_null()) manifest.state[matmul_plans_state] = matmul_plans_;
  // Where nothing was arranged otherwise there is nothing to go on with.
  if (nlohmann::json saved = steering_.saved(); !saved.is_null()) manifest.state["budget"] = std::move(saved);
  return manifest;
}

void Checkpointing::conclude(int64_t step, uint64_t bytes) {
  RunReports& reports = context_.reports;
  reports.status().last_checkpoint = step;
  if (!context_.leads()) return;
  reports.note(fmt::format("step {}: saved {}/step-{:08} ({:.1f} MiB in {:.2f} s)", step, folder_, step,
                           static_cast<double>(bytes) / (1 << 20), save_seconds_));
  reports.event("save", step, {{"bytes", bytes}, {"seconds", save_seconds_}});
  reports.publish();
  const CheckpointSection& keep = context_.job.checkpoint;
  for (const std::string& line :
       writer_.prune(step, static_cast<int>(keep.keep_last), keep.keep_every_steps)) {
    reports.event("prune", step, {{"what", line}});
  }
}

}  // namespace penstock
