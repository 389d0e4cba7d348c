#include "trainer/background_save.h"

#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "trainer/checkpoint/checkpoint_error.h"
#include "trainer/elapsed.h"
#include "trainer/finite_state.h"

namespace penstock {
namespace {

using checkpoint::SaveError;

bool is_ready(const auto& future) {
  return !future.valid() || future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace

BackgroundSave::BackgroundSave(transport::World& world, const checkpoint::CheckpointWriter& writer, Keep keep)
    : world_(world), writer_(writer), keep_(keep) {}

BackgroundSave::~BackgroundSave() {
  give_up_ = true;
  saving_.reset();  // waits for its threads
}

std::string BackgroundSave::start(checkpoint::Manifest manifest, std::vector<checkpoint::Source> sources,
                                  std::function<void()> wait_for_sources) {
  const auto begin = std::chrono::steady_clock::now();
  std::string failure;
  if (world_.rank() == 0) {
    try {
      writer_.begin(manifest.step);
    } catch (const SaveError& error) {
      failure = error.what();
    }
  }
  failure = world_.broadcast(failure, 0);
  if (!failure.empty()) return failure;
  Saving& saving = saving_.emplace();
  saving.step = manifest.step;
  saving.begin = begin;
  saving.manifest = std::move(manifest);
  saving.shard = std::async(std::launch::async,
                            [this, step = saving.step, sources = std::move(sources),
                             wait = std::move(wait_for_sources)] { return write(step, sources, wait); });
  return {};
}

bool BackgroundSave::busy() const {
  return saving_ && !(saving_->committing ? is_ready(saving_->commit) : is_ready(saving_->shard));
}

std::string BackgroundSave::write(int64_t step, const std::vector<checkpoint::Source>& sources,
                                  const std::function<void()>& wait_for_sources) const {
  wait_for_sources();
  if (sources.empty()) return {};
  if (const std::string bad = nonfinite_values(sources, world_.rank()); !bad.empty()) return "!" + bad;
  try {
    return "+" + to_text(writer_.write(step, world_.rank(), sources, [this] {
             if (give_up_) throw SaveError("the run ends before its checkpoint was written");
           }));
  } catch (const SaveError& error) {
    return fmt::format("-rank {}: {}", world_.rank(), error.what());
  }
}

BackgroundSave::Outcome BackgroundSave::commit(const checkpoint::Manifest& manifest,
                                               const std::vector<std::string>& answers) const {
  Outcome outcome;
  outcome.step = manifest.step;
  std::vector<checkpoint::ShardEntry> entries;
  for (const std::string& answer : answers) {
    if ((answer.starts_with('-') || answer.starts_with('!')) && outcome.failure.empty()) {
      outcome.failure = answer.substr(1);
      outcome.unfit = answer.starts_with('!');
    }
    if (answer.starts_with('+')) {
      entries.push_back(checkpoint::shard_entry_from_text(std::string_view(answer).substr(1)));
      outcome.bytes += entries.back().shard.bytes;
    }
  }
  try {
    if (outcome.failure.empty()) {
      writer_.commit(manifest, entries);
      outcome.deleted = prune(manifest.step);
    }
  } catch (const checkpoint::FencedError& error) {
    outcome.failure = error.what();
    outcome.fenced = true;
  } catch (const SaveError& error) {
    outcome.failure = error.what();
  }
  if (!outcome.failure.empty()) writer_.abandon(manifest.step);
  return outcome;
}

// The checkpoint is there, whatever comes of the older ones.
std::vector<std::string> BackgroundSave::prune(int64_t step) const {
  try {
    return writer_.prune(step, keep_.last, keep_.every_steps);
  } catch (const checkpoint::CheckpointError& error) {
    return {fmt::format("nothing deleted: {}", error.what())};
  }
}

void BackgroundSave::gather_entries() {
  Saving& saving = *saving_;
  std::vector<std::string> answers = world_.gather(saving.shard.get());
  saving.committing = true;
  if (world_.rank() != 0) return;
  saving.commit = std::async(
      std::launch::async,
      [this, begin = saving.begin, manifest = std::move(saving.manifest), answers = std::move(answers)] {
        Outcome outcome = commit(manifest, answers);
        outcome.seconds = seconds_since(begin);
        return outcome;
      });
}

std::optional<BackgroundSave::Outcome> BackgroundSave::advance() {
  if (!saving_->committing) {
    gather_entries();
    return std::nullopt;
  }
  return finish();
}

BackgroundSave::Outcome BackgroundSave::finish() {
  if (!saving_->committing) gather_entries();
  Outcome outcome;
  outcome.step = saving_->step;
  if (saving_->commit.valid()) outcome = saving_->commit.get();
  saving_.reset();
  return outcome;
}

}  // namespace penstock
