#pragma once

#include <string>
#include <vector>

#include "kernels/transport/world.h"
#include "trainer/watchdog/line_link.h"

namespace penstock::watchdog {

/// The connections of a rank's control channel.
struct Channel {
  std::vector<LineLink> links;      ///< by rank: rank 0 has one with every other rank, those have one with it
  std::vector<std::string> places;  ///< by rank: "process 123 on host a"
  std::string failure;              ///< why there is none, or not with everybody; empty: all are there
};

/// Collective over the world, through which the address is exchanged: everybody connects with rank 0, over
/// TCP of its own. `address`: where the others find rank 0 first; empty: any of its addresses. Never throws
/// because of the network: a rank without a channel trains as well.
Channel meet(transport::World& world, const std::string& address);

}  // namespace penstock::watchdog
