#pragma once

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/transport/world.h"
#include "parallel/planner/parallel_section.h"

namespace penstock::runtime {

/// Where a world rank stands: pipeline rank 0…P−1 of replica 0…D−1.
struct Place {
  int pipeline = 0;
  int replica = 0;
  bool operator==(const Place&) const = default;
};

/// P pipeline ranks × D replicas on P·D world ranks. pipeline_first: the ranks of a pipeline are neighbours
/// in the world; data_first: the replicas of a stage are.
class Topology {
 public:
  /// UsageError unless both are at least 1.
  Topology(int pipeline, int replicas, RankOrder order);

  int pipeline() const { return pipeline_; }
  int replicas() const { return replicas_; }
  int ranks() const { return pipeline_ * replicas_; }
  int world_rank(const Place& place) const;
  Place place(int world_rank) const;
  /// World ranks of a replica's pipeline, in pipeline order; of a pipeline rank's replicas, in replica order.
  std::vector<int> pipeline_of(int replica) const;
  std::vector<int> replicas_of(int pipeline) const;
  /// World ranks that hold both copies of what pipeline rank p, in the lower half, holds: p and P−1−p of
  /// replica 0, of replica 1, ….
  std::vector<int> copies_of(int pipeline) const;

 private:
  int pipeline_;
  int replicas_;
  RankOrder order_;
};

/// A rank's communicators, made in one order on every rank. Those with one member are there too. Engines that
/// follow one another share them.
struct Communicators {
  std::shared_ptr<transport::Communicator> pipeline;  ///< ranks of our pipeline: activations, gradients
  std::shared_ptr<transport::Communicator> replicas;  ///< ranks that hold the same blocks of the model:
                                                      ///< replicas_of(), or copies_of()
  std::shared_ptr<transport::Communicator> tied;      ///< of a tied exchange, where we are in one
  std::shared_ptr<transport::Communicator> all;
  int copies = 1;  ///< for which they were made, and
  std::vector<std::pair<int, int>> tied_exchanges;
};

/// Collective over the world, whose size is the topology's (UsageError). `copies`: of the weights.
/// `tied_exchanges`: pairs of pipeline ranks that exchange a tied weight's accumulators, no rank in two.
Communicators make_communicators(transport::World& world, const Topology& topology, int copies,
                                 const std::vector<std::pair<int, int>>& tied_exchanges);
/// The same for other copies and exchanges: what does not depend on them is shared with `made`. Collective
/// likewise.
Communicators communicators_beside(transport::World& world, const Topology& topology,
                                   const Communicators& made, int copies,
                                   const std::vector<std::pair<int, int>>& tied_exchanges);

}  // namespace penstock::runtime
