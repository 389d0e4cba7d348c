#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace penstock {

/// How a backend computes each matrix product of a run, where that is a choice that its bits depend on.
/// Chosen once: all ranks, and whoever goes on with the run, use the same (contract C1).
class MatmulPlans {
 public:
  /// Rank 0's text on every rank, whatever the others pass. Collective.
  using Broadcast = std::function<std::string(const std::string& text)>;

  virtual ~MatmulPlans() = default;
  /// All of them, as adopt() reads them: JSON.
  virtual std::string text() const = 0;
  virtual size_t count() const = 0;
  /// What they belong to: the library, the driver, the device.
  virtual std::string origin() const = 0;
  /// Takes a checkpoint's text() over, in place of what was chosen so far. "", or why it is of no use here:
  /// nothing has changed then. DeviceError for a text that is none of ours.
  virtual std::string adopt(const std::string& text) = 0;
  /// Every rank calls it once, before what it runs is planned: rank 0's plans become everybody's, and nobody
  /// chooses any more. `plan_everything` runs on rank 0 alone, and plans all products that any rank of the
  /// run will ask for. DeviceError on all ranks if that fails, or where a rank's origin is not rank 0's.
  virtual void agree(bool is_rank_0, const std::function<void()>& plan_everything,
                     const Broadcast& broadcast) = 0;
};

}  // namespace penstock
