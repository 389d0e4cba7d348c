#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "kernels/device/device.h"
#include "kernels/transport/world.h"
#include "parallel/schedule/program.h"
#include "trainer/accounting/rank_times.h"
#include "trainer/accounting/step_account.h"

namespace penstock::accounting {

/// Brings the records of a step to the first rank of each pipeline, and what the pipelines' first ranks make
/// of them to rank 0. Messages go on a stream of their own, so that nobody waits for them: send() after a
/// step, receive() while the device works on the next one. Buffers are made once.
///
/// A pipeline's first rank needs all its ranks' times, not only its neighbours', to follow a wait to its
/// root; other pipelines' it does not need, so that nothing grows with the number of replicas but one short
/// summary each.
class RecordGathering {
 public:
  /// Collective over the world. `pipelines`: world ranks of each replica's pipeline, in pipeline order.
  /// `world`, `device` and `program` outlive it.
  RecordGathering(transport::World& world, Device& device, const std::vector<std::vector<int>>& pipelines,
                  const schedule::Program& program);

  /// Other records from now on: of another program of as many ranks. Not collective; between receive() and
  /// send().
  void take_program(const schedule::Program& program);

  /// This rank is the first of its pipeline.
  bool leads() const { return place_ == 0; }
  /// To be filled, then sent.
  RankTimes& own() { return times_[place_]; }
  /// Returns at once. receive() comes before the next send().
  void send();
  /// Waits for what send() began. The first rank of a pipeline: the times of all its ranks; others: nothing.
  std::span<const RankTimes> receive();

  /// On the pipelines' first ranks alone: brings their accounts to world rank 0. Waits. There: those of all
  /// pipelines, replica by replica, with each rank's largest culprits; others: nothing. Valid until the next
  /// call.
  std::span<const StepAccount> share(const StepAccount& account);

 private:
  void exchange(transport::Communicator& communicator);

  transport::World& world_;
  Device& device_;
  size_t place_ = 0;    ///< in our pipeline
  size_t replica_ = 0;  ///< our pipeline's number
  std::unique_ptr<transport::Communicator> pipeline_;
  std::unique_ptr<transport::Communicator> leaders_;
  std::vector<RankTimes> times_;               ///< by pipeline rank; only our own, unless we lead
  std::unique_ptr<HostMemory> memory_;         ///< of records and summaries
  std::vector<std::span<std::byte>> records_;  ///< likewise
  std::vector<transport::Message> messages_;
  std::vector<std::span<std::byte>> summaries_;  ///< by replica, likewise
  std::vector<StepAccount> accounts_;
  std::unique_ptr<Stream> stream_;
  transport::AbortOnUnwind abort_;
};

}  // namespace penstock::accounting
