#pragma once

#include <vector>

#include "kernels/transport/tcp/socket.h"
#include "kernels/transport/tcp_world.h"

namespace penstock::transport {

/// Connects all processes with one another. By rank: a connection, none for ourselves.
///
/// Rank 0 listens at the place's port; the others tell it who they are and where they listen. Once all are
/// there it tells each where the others are, and each connects with those of lower ranks. Who is of another
/// attempt, size or version is told so and turned away; strangers are ignored. LaunchError as in
/// make_tcp_world().
std::vector<Socket> meet(const TcpPlace& place, const TcpOptions& options);

}  // namespace penstock::transport
