#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/transport/nccl_world.h"

namespace penstock::transport {

/// Runs `body` once a rank, in threads whose NCCL worlds were made over inproc ones. Returns what each rank
/// threw, "" for nothing. Nothing of NCCL is left afterwards, once aborts may return.
std::vector<std::string> run_nccl(int ranks, const NcclOptions& options,
                                  const std::function<void(World&)>& body);

}  // namespace penstock::transport
