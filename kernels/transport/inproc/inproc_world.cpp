#include "kernels/transport/inproc/inproc_world.h"

#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "kernels/cpu/fibers.h"
#include "kernels/device/error.h"
#include "kernels/transport/inproc/inproc_communicator.h"
#include "kernels/transport/inproc/signalled_communicator.h"

namespace penstock::transport {
namespace {

class InprocWorld final : public World {
 public:
  InprocWorld(int rank, int size, std::shared_ptr<Fabric> fabric)
      : World(rank, size), fabric_(std::move(fabric)) {}

  std::string_view transport() const override { return "inproc"; }
  void abort(const std::string& reason) override { fabric_->interruption()->stop(reason); }
  bool stopped() const override { return fabric_->interruption()->stopped(); }
  std::string stop_reason() const override { return fabric_->interruption()->reason(); }
  /// Whether an error came here from another rank: it then names why the world was stopped, and more.
  bool is_echo(const std::string& error) const {
    const std::string reason = fabric_->interruption()->reason();
    return error.size() > reason.size() && error.find(reason) != std::string::npos;
  }

 private:
  std::vector<std::string> share(std::string_view bytes) override { return fabric_->share(rank(), bytes); }
  std::unique_ptr<Communicator> make_communicator(const std::string& name, const std::vector<int>& members,
                                                  int our_rank) override {
    Hub& hub = fabric_->hub(communicators_++, name, members);
    if (access().device != nullptr) return make_signalled(hub, our_rank);
    if (our_rank < 0) return nullptr;
    return std::make_unique<InprocCommunicator>(fabric_, hub, our_rank);
  }

  std::unique_ptr<Communicator> make_signalled(Hub& hub, int our_rank) {
    std::unique_ptr<Communicator> made;
    if (our_rank >= 0) made = std::make_unique<SignalledCommunicator>(fabric_, hub, our_rank, access());
    fabric_->share(rank(), {});  // now all members have entered
    std::exception_ptr failure;
    try {
      if (our_rank >= 0) hub.signalled.reach_peers(our_rank);
    } catch (const DeviceError&) {
      failure = std::current_exception();
    }
    fabric_->share(rank(), {});  // nobody looks at his peers' devices any more
    if (failure) std::rethrow_exception(failure);
    return made;
  }

  std::shared_ptr<Fabric> fabric_;
  size_t communicators_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<World>> make_inproc_worlds(int ranks, const InprocOptions& options) {
  const auto fabric = std::make_shared<Fabric>(ranks, options);
  std::vector<std::unique_ptr<World>> worlds;
  worlds.reserve(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    worlds.push_back(std::make_unique<InprocWorld>(rank, ranks, fabric));
  return worlds;
}

void run_inproc(int ranks, const InprocOptions& options, const std::function<void(World&)>& body) {
  std::mutex mutex;
  std::exception_ptr first;
  bool first_is_echo = false;
  const auto run = [&](World& world) {
    try {
      body(world);
    } catch (const std::exception& error) {
      world.abort(error.what());
      const bool echo = static_cast<InprocWorld&>(world).is_echo(error.what());
      const std::lock_guard lock(mutex);
      if (first && (echo || !first_is_echo)) return;
      first = std::current_exception();
      first_is_echo = echo;
    }
  };
  std::vector<std::unique_ptr<World>> worlds = make_inproc_worlds(ranks, options);
  if (options.one_thread && cpu::Fibers::supported()) {
    std::vector<std::function<void()>> bodies;
    for (const std::unique_ptr<World>& world : worlds) bodies.emplace_back([&] { run(*world); });
    cpu::Fibers::run(bodies);
  } else {
    std::vector<std::thread> threads;
    threads.reserve(worlds.size());
    for (const std::unique_ptr<World>& world : worlds) threads.emplace_back(run, std::ref(*world));
    for (std::thread& thread : threads) thread.join();
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace penstock::transport
