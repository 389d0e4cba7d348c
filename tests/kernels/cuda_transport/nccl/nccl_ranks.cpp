#include "tests/kernels/cuda_transport/nccl/nccl_ranks.h"

#include <exception>

#include "kernels/transport/inproc/inproc_world.h"

namespace penstock::transport {
namespace {

/// As a program does, before there are ranks.
const bool variables_are_set = [] {
  set_nccl_variables({});
  return true;
}();

}  // namespace

std::vector<std::string> run_nccl(int ranks, const NcclOptions& options,
                                  const std::function<void(World&)>& body) {
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  run_inproc(ranks, {}, [&](World& hosts) {
    try {
      const auto world = make_nccl_world(hosts, options);
      const AbortOnUnwind guard(*world);
      body(*world);
    } catch (const std::exception& error) {
      errors[static_cast<size_t>(hosts.rank())] = error.what();
    }
  });
  return errors;
}

}  // namespace penstock::transport
