#include "parallel/runtime/topology.h"

#include <utility>

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock::runtime {

Topology::Topology(int pipeline, int replicas, RankOrder order)
    : pipeline_(pipeline), replicas_(replicas), order_(order) {
  if (pipeline < 1 || replicas < 1) {
    throw UsageError(fmt::format("{} pipeline ranks × {} replicas: both are at least 1", pipeline, replicas));
  }
}

int Topology::world_rank(const Place& place) const {
  return order_ == RankOrder::pipeline_first ? place.replica * pipeline_ + place.pipeline
                                             : place.pipeline * replicas_ + place.replica;
}

Place Topology::place(int world_rank) const {
  if (order_ == RankOrder::pipeline_first) return {world_rank % pipeline_, world_rank / pipeline_};
  return {world_rank / replicas_, world_rank % replicas_};
}

std::vector<int> Topology::pipeline_of(int replica) const {
  std::vector<int> ranks(static_cast<size_t>(pipeline_));
  for (int p = 0; p < pipeline_; ++p) ranks[static_cast<size_t>(p)] = world_rank({p, replica});
  return ranks;
}

std::vector<int> Topology::replicas_of(int pipeline) const {
  std::vector<int> ranks(static_cast<size_t>(replicas_));
  for (int d = 0; d < replicas_; ++d) ranks[static_cast<size_t>(d)] = world_rank({pipeline, d});
  return ranks;
}

std::vector<int> Topology::copies_of(int pipeline) const {
  std::vector<int> ranks;
  for (int d = 0; d < replicas_; ++d) {
    ranks.push_back(world_rank({pipeline, d}));
    ranks.push_back(world_rank({pipeline_ - 1 - pipeline, d}));
  }
  return ranks;
}

Communicators make_communicators(transport::World& world, const Topology& topology, int copies,
                                 const std::vector<std::pair<int, int>>& tied_exchanges) {
  if (world.size() != topology.ranks()) {
    throw UsageError(fmt::format("{} pipeline ranks × {} replicas in a world of {} ranks",
                                 topology.pipeline(), topology.replicas(), world.size()));
  }
  Communicators ours;
  const auto keep = [](std::unique_ptr<transport::Communicator>& place,
                       std::unique_ptr<transport::Communicator> made) {
    if (made) place = std::move(made);
  };
  for (int d = 0; d < topology.replicas(); ++d)
    keep(ours.pipeline, world.create(fmt::format("pipeline of replica {}", d), topology.pipeline_of(d)));
  const int mirror = topology.pipeline() - 1;
  for (int p = 0; p < topology.pipeline() / copies; ++p) {
    if (copies == 1) {
      keep(ours.replicas,
           world.create(fmt::format("replicas of pipeline rank {}", p), topology.replicas_of(p)));
    } else {
      keep(ours.replicas, world.create(fmt::format("copies on pipeline ranks {} and {}", p, mirror - p),
                                       topology.copies_of(p)));
    }
  }
  for (int d = 0; d < topology.replicas(); ++d) {
    for (const auto& [first, last] : tied_exchanges) {
      keep(ours.tied, world.create(fmt::format("tied weight of replica {}, ranks {} and {}", d, first, last),
                                   {topology.world_rank({first, d}), topology.world_rank({last, d})}));
    }
  }
  ours.all = world.create("all ranks");
  return ours;
}

}  // namespace penstock::runtime
