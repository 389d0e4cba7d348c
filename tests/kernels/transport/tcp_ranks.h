#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/transport/tcp_world.h"

namespace penstock::transport {

/// A port of this machine that nobody listens at.
int free_port();

/// Runs `body` once a rank, in threads of this process that meet over the loopback as processes would.
/// Returns what each rank threw, "" for nothing.
std::vector<std::string> run_tcp(int ranks, const std::function<void(World&)>& body);

}  // namespace penstock::transport
