#pragma once

#include <cstddef>

namespace penstock::runtime {

/// The micro-batches of a step in windows of `every`, whose gradients are summed over the replicas one after
/// another (parallel.reduce_every). Two sets of gradients take turns, so that a window accumulates in one
/// while the replicas sum the other; the last window's is set 0.
struct GradientWindows {
  int every = 0;  ///< 0: the step is one window
  int micro_batches = 1;

  int count() const { return every == 0 ? 1 : (micro_batches + every - 1) / every; }
  int sets() const { return count() > 1 ? 2 : 1; }
  int window(int micro_batch) const { return every == 0 ? 0 : micro_batch / every; }
  size_t set(int micro_batch) const { return static_cast<size_t>(count() - 1 - window(micro_batch)) % 2; }
  /// The micro-batch is the last of a window of `every`. (The step's last ends a window too.)
  bool closes(int micro_batch) const { return every > 0 && (micro_batch + 1) % every == 0; }
};

}  // namespace penstock::runtime
