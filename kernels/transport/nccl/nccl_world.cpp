#include "kernels/transport/nccl_world.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "kernels/cuda/runtime/runtime_call.h"
#include "kernels/device/error.h"
#include "kernels/transport/nccl/nccl_call.h"
#include "kernels/transport/nccl/nccl_communicator.h"
#include "kernels/transport/nccl/nccl_shared.h"

namespace penstock::transport {
namespace {

class NcclWorld final : public World {
 public:
  NcclWorld(World& hosts, int gpu, const NcclOptions& options)
      : World(hosts.rank(), hosts.size()),
        hosts_(hosts),
        shared_(std::make_shared<NcclShared>(gpu, options.start)) {
    for (const auto& [name, value] : options.variables) {
      if (setenv(name.c_str(), value.c_str(), 1) != 0)
        throw DeviceError(fmt::format("setting {}: {}", name, std::generic_category().message(errno)));
    }
  }

  std::string_view transport() const override { return "nccl"; }
  void abort(const std::string& reason) override {
    shared_->interruption()->stop(reason);
    hosts_.abort(reason);
  }
  bool stopped() const override { return shared_->interruption()->stopped() || hosts_.stopped(); }

 private:
  std::vector<std::string> share(std::string_view bytes) override { return hosts_.all_gather(bytes); }

  std::unique_ptr<Communicator> make_communicator(const std::string& name, const std::vector<int>& members,
                                                  int our_rank) override {
    const auto naming = [&] { return fmt::format("world rank {}: naming communicator \"{}\"", rank(), name); };
    ncclUniqueId id{};
    cuda::use_gpu(shared_->gpu());
    if (our_rank == 0) check_nccl("ncclGetUniqueId", ncclGetUniqueId(&id), naming);
    const std::string bytes = hosts_.broadcast({id.internal, sizeof id.internal}, members[0]);
    if (our_rank < 0) return nullptr;
    std::memcpy(id.internal, bytes.data(), sizeof id.internal);
    return std::make_unique<NcclCommunicator>(
        std::make_shared<const Identity>(Identity{name, members, our_rank}), shared_, id);
  }

  World& hosts_;
  std::shared_ptr<NcclShared> shared_;
};

}  // namespace

std::unique_ptr<World> make_nccl_world(World& hosts, int gpu, const NcclOptions& options) {
  return std::make_unique<NcclWorld>(hosts, gpu, options);
}

}  // namespace penstock::transport
