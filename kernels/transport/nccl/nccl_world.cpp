#include "kernels/transport/nccl_world.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "kernels/cuda/runtime/runtime_call.h"
#include "kernels/device/error.h"
#include "kernels/transport/launch.h"
#include "kernels/transport/nccl/nccl_call.h"
#include "kernels/transport/nccl/nccl_communicator.h"
#include "kernels/transport/nccl/nccl_shared.h"

namespace penstock::transport {
namespace {

void set_variable(const char* name, const char* value, bool overwrite) {
  if (setenv(name, value, overwrite ? 1 : 0) != 0)
    throw LaunchError(
        fmt::format("setting {} = \"{}\" for NCCL: {}", name, value, std::generic_category().message(errno)));
}

/// "2.28.9" from 22809.
std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

int library_version() {
  // Before 2.9 versions were counted otherwise; those are too old anyway.
  constexpr int least = 21800;
  int version = 0;
  try {
    check_nccl("ncclGetVersion", ncclGetVersion(&version), [] { return "opening NCCL"; });
  } catch (const DeviceError& error) {
    throw LaunchError(error.what());
  }
  if (version < least)
    throw LaunchError(
        fmt::format("NCCL {} was opened, and Penstock needs {} or newer: install it, or name its folder "
                    "in LD_LIBRARY_PATH",
                    version_text(version), version_text(least)));
  return version;
}

class NcclWorld final : public World {
 public:
  NcclWorld(World& hosts, const NcclOptions& options)
      : World(hosts.rank(), hosts.size()),
        version_(library_version()),
        hosts_(hosts),
        options_(options),
        shared_(std::make_shared<NcclShared>(hosts)) {}

  std::string_view transport() const override { return "nccl"; }
  std::string description() const override {
    return fmt::format("nccl (NCCL {}; its ranks meet over {})", version_text(version_), hosts_.transport());
  }
  World& hosts() override { return hosts_; }
  void abort(const std::string& reason) override {
    shared_->interruption()->stop(reason);
    hosts_.abort(shared_->interruption()->reason());  // the first one
  }
  bool stopped() const override { return shared_->stopped(); }
  std::string stop_reason() const override { return stopped() ? shared_->interruption()->reason() : ""; }

 private:
  std::vector<std::string> share(std::string_view bytes) override { return hosts_.all_gather(bytes); }

  std::unique_ptr<Communicator> make_communicator(const std::string& name, const std::vector<int>& members,
                                                  int our_rank) override {
    if (access().device == nullptr) {
      throw UsageError(fmt::format(
          "world rank {}: communicator \"{}\" before the world knows the rank's GPU: attach() it first",
          rank(), name));
    }
    const int gpu = access().device->options().index;
    ncclUniqueId id{};
    if (our_rank == 0) {
      cuda::use_gpu(gpu);
      check_nccl("ncclGetUniqueId", ncclGetUniqueId(&id),
                 [&] { return fmt::format("world rank {}: naming communicator \"{}\"", rank(), name); });
    }
    const std::string bytes = hosts_.broadcast({id.internal, sizeof id.internal}, members[0]);
    if (our_rank < 0) return nullptr;
    std::memcpy(id.internal, bytes.data(), sizeof id.internal);
    return std::make_unique<NcclCommunicator>(
        std::make_shared<const Identity>(Identity{name, members, our_rank}), shared_, options_, gpu, id);
  }

  const int version_;
  World& hosts_;
  const NcclOptions options_;
  std::shared_ptr<NcclShared> shared_;
};

}  // namespace

bool nccl_built_in() {
  return true;
}

void set_nccl_variables(const std::map<std::string, std::string>& variables) {
  for (const auto& [name, value] : variables) set_variable(name.c_str(), value.c_str(), true);
  set_variable("NCCL_LAUNCH_ORDER_IMPLICIT", "1", false);
}

std::unique_ptr<World> make_nccl_world(World& hosts, const NcclOptions& options) {
  return std::make_unique<NcclWorld>(hosts, options);
}

}  // namespace penstock::transport
