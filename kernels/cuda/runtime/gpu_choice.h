#pragma once

#include <string>
#include <vector>

namespace penstock::cuda {

/// The GPUs that this process sees. DeviceError, with what to do, where there is no driver, a driver too old
/// for this build, or no GPU.
int count_gpus();

/// Of the CUDA that the driver supports: 13000 is 13.0. 0 without a driver.
int driver_version();

/// Where a rank stands among those of its host.
struct LocalRank {
  int rank = 0;        ///< in the world
  int local_rank = 0;  ///< in 0…local_ranks−1
  int local_ranks = 1;
};

/// The index of the rank's GPU: its local rank, where the process sees that many; the only one, where the
/// launcher shows each rank its own; with `share_devices` neighbours share. DeviceError for more ranks than
/// GPUs, and for a GPU that this build has no kernels for. Decided before any communicator exists.
int choose_gpu(const LocalRank& who, bool share_devices);

/// Which rank runs where, as every rank tells it.
struct Placement {
  int rank = 0;
  std::string host;
  int gpu = 0;              ///< as its process counts
  std::string bus;          ///< PCI address: tells GPUs of a host apart
  std::string description;  ///< "NVIDIA H200 (139.7 GiB, compute capability 9.0)"
};
Placement placement_of(int rank, int gpu);
/// For World::gather: one line of text, and back.
std::string to_line(const Placement& placement);
Placement placement_from(const std::string& line);
/// "rank → host → GPU", a line a rank. DeviceError if two ranks have the same GPU and were not to share.
std::string placement_table(const std::vector<Placement>& ranks, bool share_devices);

/// Lets `gpu` read the memory of `peer` directly. DeviceError, with what to do, if the machine does not allow
/// it. Nothing to do for a GPU and itself.
void enable_peer_access(int gpu, int peer);

}  // namespace penstock::cuda
