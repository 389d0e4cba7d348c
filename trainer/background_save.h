#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "kernels/transport/world.h"
#include "trainer/checkpoint/checkpoint_writer.h"

namespace penstock {

/// One checkpoint on its way to the disk while the run goes on: every rank writes its shard in a thread of
/// its own; once all have, rank 0 commits and deletes what is not kept any more, in another. The threads
/// never communicate: ranks meet in start(), advance() and finish(), which are collective and called between
/// steps.
class BackgroundSave {
 public:
  struct Keep {
    int last = 2;
    int64_t every_steps = 0;
  };
  /// Both outlive it.
  BackgroundSave(transport::World& world, const checkpoint::CheckpointWriter& writer, Keep keep);
  /// Threads that still write give up first.
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  /// Makes the checkpoint's folder and begins. `manifest`: rank 0's. `sources` must not change until the end;
  /// what they point to is there once `wait_for_sources` returned, which the thread calls. Nothing may be in
  /// flight. "", or why there is no folder, the same on all ranks: then nothing began.
  std::string start(checkpoint::Manifest manifest, std::vector<checkpoint::Source> sources,
                    std::function<void()> wait_for_sources);
  /// Between start() and the end that advance() or finish() tells, the same on all ranks.
  bool in_flight() const { return saving_.has_value(); }
  int64_t step() const { return saving_->step; }
  /// Whether a thread of this rank is at work.
  bool busy() const;

  /// How a save ended. Only rank 0 knows more than the step.
  struct Outcome {
    int64_t step = 0;
    std::string failure;  ///< "": it is on disk
    bool unfit = false;   ///< by values that are NaN or infinite
    bool fenced = false;  ///< a newer attempt of the run is under way
    uint64_t bytes = 0;
    double seconds = 0;                ///< from start() until it was committed
    std::vector<std::string> deleted;  ///< CheckpointWriter::prune()
  };
  /// When no rank is busy: takes the next part up, or tells the end.
  std::optional<Outcome> advance();
  /// Waits for the end.
  Outcome finish();

 private:
  struct Saving {
    int64_t step = 0;
    std::chrono::steady_clock::time_point begin;
    checkpoint::Manifest manifest;
    std::future<std::string>
        shard;  ///< "+" and its entry; "-" and why not, "!" for values; "": nothing to write
    bool committing = false;
    std::future<Outcome> commit;  ///< rank 0's
  };
  std::string write(int64_t step, const std::vector<checkpoint::Source>& sources,
                    const std::function<void()>& wait_for_sources) const;
  Outcome commit(const checkpoint::Manifest& manifest, const std::vector<std::string>& answers) const;
  std::vector<std::string> prune(int64_t step) const;
  void gather_entries();

  transport::World& world_;
  const checkpoint::CheckpointWriter& writer_;
  Keep keep_;
  std::atomic<bool> give_up_{false};
  std::optional<Saving> saving_;
};

}  // namespace penstock
