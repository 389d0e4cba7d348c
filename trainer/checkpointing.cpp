#include "trainer/checkpointing.h"

#include <chrono>

#include <fmt/format.h>

#include "trainer/checkpoint/checkpoint_error.h"
#include "trainer/job/write_job.h"
#include "trainer/model_state.h"
#include "trainer/version/version.h"

namespace penstock {

Checkpointing::Checkpointing(const Job& job, const RunFolder& folder, uint64_t attempt,
                             std::string data_fingerprint, runtime::LocalEngine& engine,
                             SpikeDetector& spikes, RunReports& reports)
    : job_(job),
      folder_(folder.checkpoints().string()),
      data_fingerprint_(std::move(data_fingerprint)),
      engine_(engine),
      spikes_(spikes),
      reports_(reports),
      writer_(folder_, attempt) {
  checkpoint::check_space(folder_, checkpoint::shard_bytes(model_sources(engine.rank().parameters())));
}

void Checkpointing::wish(const StepSummary& result, Decision& wishes) {
  const int64_t every = job_.checkpoint.every_steps;
  wishes.save |= wishes.finished || (every > 0 && result.step % every == 0);
  // The last save failed and the job wants to know: leave now rather than train on without a net.
  if (!failure_.empty() && job_.checkpoint.on_save_error == OnSaveError::stop) {
    wishes.stop = true;
    wishes.code = ExitCode::storage;
    wishes.reason = failure_;
  }
}

void Checkpointing::act(const StepSummary& result, const Decision& decision) {
  if (decision.save) save(result.step);
}

void Checkpointing::save(int64_t step) {
  const auto start = std::chrono::steady_clock::now();
  try {
    engine_.stream().synchronize();
    checkpoint::Manifest manifest;
    manifest.step = step;
    manifest.samples = static_cast<uint64_t>(step) * static_cast<uint64_t>(job_.batch.global);
    manifest.data_fingerprint = data_fingerprint_;
    manifest.job = to_toml(job_);
    manifest.program = fmt::format("penstock {} ({})", build_info().version, build_info().git_id);
    manifest.state["spike_losses"] = spikes_.state();
    writer_.begin(step);
    const auto entry = writer_.write(step, 0, model_sources(engine_.rank().parameters()));
    writer_.commit(manifest, {entry});
    failure_.clear();
    save_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    reports_.note(fmt::format("step {}: saved {}/step-{:08} ({:.1f} MiB in {:.2f} s)", step, folder_, step,
                              static_cast<double>(entry.shard.bytes) / (1 << 20), save_seconds_));
    reports_.event("save", step, {{"bytes", entry.shard.bytes}, {"seconds", save_seconds_}});
    reports_.status().last_checkpoint = step;
    reports_.publish();
    for (const std::string& line :
         writer_.prune(step, static_cast<int>(job_.checkpoint.keep_last), job_.checkpoint.keep_every_steps)) {
      reports_.event("prune", step, {{"what", line}});
    }
  } catch (const checkpoint::SaveError& error) {
    writer_.abandon(step);
    failure_ = fmt::format("step {}: saving failed: {}", step, error.what());
    reports_.warning(failure_);
    reports_.event("save_failed", step, {{"reason", error.what()}});
  }
}

}  // namespace penstock
