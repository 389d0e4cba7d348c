#pragma once

#include <array>
#include <vector>

#include "kernels/transport/communicator.h"
#include "model/rank_model.h"

namespace penstock::runtime {

/// What a sharded optimizer's owners have updated goes to all members: of each unit the copies that kernels
/// read, and masters where kernels read those. Every member sends what it owns to every other: as many bytes
/// as a ring.
class ParameterGatherer {
 public:
  /// `group`: Communicators::replicas, one member of the optimizer each, in their order.
  ParameterGatherer(model::RankModel& rank, transport::Communicator& group);

  /// Enqueues it for one unit of the rank. All members call it for the same units in the same order.
  /// `version`: of the weights (ParameterStore::select_version()), where there are two.
  void gather(Stream& stream, int unit, size_t version = 0);

 private:
  /// A run of the unit (model::ShardRun): what each member owns of it. Absent tensors: nothing.
  struct Run {
    int unit = 0;
    std::vector<Tensor> parts;
  };

  transport::Communicator& group_;
  std::array<std::vector<Run>, 2> runs_;  ///< by version
  std::vector<transport::Message> messages_;
};

}  // namespace penstock::runtime
