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

namespace {

// A communicator of which we may be no member.
void keep(std::shared_ptr<transport::Communicator>& place, std::unique_ptr<transport::Communicator> made) {
  if (made) place = std::move(made);
}

void make_tied(transport::World& world, const Topology& topology,
               const std::vector<std::pair<int, int>>& tied_exchanges, Communicators& ours) {
  ours.tied_exchanges = tied_exchanges;
  for (int d = 0; d < topology.replicas(); ++d) {
    for (const auto& [first, last] : tied_exchanges) {
      keep(ours.tied, world.create(fmt::format("tied weight of replica {}, ranks {} and {}", d, first, last),
                                   {topology.world_rank({first, d}), topology.world_rank({last, d})}));
    }
  }
}

}  // namespace

Communicators make_communicators(transport::World& world, const Topology& topology, int copies,
                                 const std::vector<std::pair<int, int>>& tied_exchanges) {
  if (world.size() != topology.ranks()) {
    throw UsageError(fmt::format("{} pipeline ranks × {} replicas in a world of {} ranks",
                                 topology.pipeline(), topology.replicas(), world.size()));
  }
  Communicators ours;
  for (int d = 0; d < topology.replicas(); ++d)
    keep(ours.pipeline, world.create(fmt::format("pipeline of replica {}", d), topology.pipeline_of(d)));
  ours.copies = copies;
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
  make_tied(world, topology, tied_exchanges, ours);
  ours.all = world.create("all ranks");
  return ours;
}

Communicators communicators_beside(transport::World& world, const Topology& topology,
                                   const Communicators& made, int copies,
                                   const std::vector<std::pair<int, int>>& tied_exchanges) {
  if (made.copies != copies) return make_communicators(world, topology, copies, tied_exchanges);
  Communicators ours = made;
  if (made.tied_exchanges == tied_exchanges) return ours;
  ours.tied.reset();
  make_tied(world, topology, tied_exchanges, ours);
  return ours;
}

}  // namespace penstock::runtime
