#pragma once

#include <array>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "tests/fake_cuda/nccl/clique.h"

namespace penstock::fake_nccl {

/// All of the fake; one a process.
struct Library {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<uint64_t, std::shared_ptr<Clique>> cliques;  ///< by the number in their id
  uint64_t ids = 0;
  std::set<ncclComm_t> alive;
  std::map<std::string, ncclResult_t> failures;
  std::array<std::shared_ptr<fake_cuda::Record>, fake_cuda::most_gpus> started;  ///< of a GPU's latest kernel
  int version = NCCL_VERSION_CODE;
  int aborts = 0;
  bool holds_aborts = false;
};

Library& library();

/// What was planned for this call; the mutex is held.
ncclResult_t planned(const char* call);

/// Launches the group that waits, if all that it needs is connected. The mutex is held.
bool launch_if_connected(ncclComm& comm);

}  // namespace penstock::fake_nccl
