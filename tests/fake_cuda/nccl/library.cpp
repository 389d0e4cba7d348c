// Communicators from their names to their ends, and what tests plan.
#include "tests/fake_cuda/nccl/library.h"

#include <chrono>
#include <cstdlib>
#include <cstring>

#include "tests/fake_cuda/nccl/faults.h"

namespace penstock::fake_nccl {
namespace {

/// Ranks are waited for; two on one GPU are refused.
ncclResult_t meeting(const ncclComm& comm) {
  Clique& clique = *comm.clique;
  const std::lock_guard lock(clique.mutex);
  std::set<int> gpus;
  for (const auto& [rank, gpu] : clique.gpus)
    if (!gpus.insert(gpu).second) return ncclInvalidUsage;
  return static_cast<int>(clique.gpus.size()) < clique.ranks ? ncclInProgress : ncclSuccess;
}

ncclResult_t parting(const ncclComm& comm) {
  Clique& clique = *comm.clique;
  const std::lock_guard lock(clique.mutex);
  return comm.under_way > 0 || clique.finalized < clique.ranks ? ncclInProgress : ncclSuccess;
}

void wait_for_kernels(const ncclComm& comm) {
  while (comm.under_way > 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
}

}  // namespace

Library& library() {
  static auto* const only = new Library;  // outlives every thread that aborts
  return *only;
}

ncclResult_t planned(const char* call) {
  const auto found = library().failures.find(call);
  if (found == library().failures.end()) return ncclSuccess;
  const ncclResult_t result = found->second;
  library().failures.erase(found);
  return result;
}

void reset() {
  Library& all = library();
  const std::lock_guard lock(all.mutex);
  all.failures.clear();
  all.cliques.clear();
  all.started = {};
  all.version = NCCL_VERSION_CODE;
  all.aborts = 0;
}

void fail_call(const std::string& call, ncclResult_t result) {
  const std::lock_guard lock(library().mutex);
  library().failures[call] = result;
}

void break_communicators(int gpu, ncclResult_t result) {
  const std::lock_guard lock(library().mutex);
  for (ncclComm_t comm : library().alive)
    if (comm->gpu == gpu) comm->broken = result;
}

void hold_aborts() {
  const std::lock_guard lock(library().mutex);
  library().holds_aborts = true;
}

void let_aborts_return() {
  {
    const std::lock_guard lock(library().mutex);
    library().holds_aborts = false;
  }
  library().changed.notify_all();
}

void set_version(int version) {
  const std::lock_guard lock(library().mutex);
  library().version = version;
}

int communicators() {
  const std::lock_guard lock(library().mutex);
  return static_cast<int>(library().alive.size());
}

int aborts() {
  const std::lock_guard lock(library().mutex);
  return library().aborts;
}

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  const std::lock_guard lock(library().mutex);
  *version = library().version;
  return planned("ncclGetVersion");
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(library().mutex);
  if (const ncclResult_t result = planned("ncclGetUniqueId"); result != ncclSuccess) return result;
  const uint64_t number = ++library().ids;
  std::memset(id, 0, sizeof(*id));
  std::memcpy(id, &number, sizeof(number));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  Library& all = library();
  const std::lock_guard lock(all.mutex);
  if (const ncclResult_t result = planned("ncclCommInitRankConfig"); result != ncclSuccess) return result;
  if (config->blocking != 0) return ncclInvalidUsage;  // the transport never blocks in it
  uint64_t number = 0;
  std::memcpy(&number, &id, sizeof(number));
  std::shared_ptr<Clique>& clique = all.cliques[number];
  if (!clique) clique = std::make_shared<Clique>(ranks);
  if (clique->ranks != ranks || rank < 0 || rank >= ranks) return ncclInvalidArgument;
  auto comm = std::make_unique<ncclComm>();
  comm->clique = clique;
  comm->rank = rank;
  comm->gpu = fake_cuda::current_gpu();
  const char* const order = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  comm->in_order = order != nullptr && std::strcmp(order, "1") == 0;
  {
    const std::lock_guard inner(clique->mutex);
    clique->gpus[rank] = comm->gpu;
  }
  all.alive.insert(comm.get());
  *made = comm.release();
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const std::lock_guard lock(library().mutex);
  if (library().alive.count(comm) == 0) return ncclInvalidArgument;
  *error = comm->broken;
  if (*error == ncclSuccess) *error = meeting(*comm);
  if (*error == ncclSuccess && !launch_if_connected(*comm)) *error = ncclInProgress;
  if (*error == ncclSuccess && comm->finalizing) *error = parting(*comm);
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const std::lock_guard lock(library().mutex);
  if (const ncclResult_t result = planned("ncclCommFinalize"); result != ncclSuccess) return result;
  if (library().alive.count(comm) == 0 || comm->finalizing) return ncclInvalidArgument;
  comm->finalizing = true;
  const std::lock_guard inner(comm->clique->mutex);
  ++comm->clique->finalized;
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  {
    const std::lock_guard lock(library().mutex);
    if (library().alive.erase(comm) == 0) return ncclInvalidArgument;
  }
  wait_for_kernels(*comm);
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  Library& all = library();
  {
    std::unique_lock lock(all.mutex);
    if (all.alive.erase(comm) == 0) return ncclInvalidArgument;
    ++all.aborts;
    comm->aborted = true;
    all.changed.wait(lock, [&] { return !all.holds_aborts; });
  }
  wait_for_kernels(*comm);
  delete comm;
  return ncclSuccess;
}

}  // extern "C"

}  // namespace penstock::fake_nccl
