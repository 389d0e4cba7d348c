#include "kernels/cuda/runtime/gpu_choice.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "kernels/cuda/runtime/runtime_call.h"
#include "kernels/device/error.h"
#include "kernels/device/host_name.h"

namespace penstock::cuda {
namespace {

/// "13.0" from 13000.
std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

cudaDeviceProp properties_of(int gpu) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, gpu),
        [&] { return fmt::format("asking for the properties of GPU {}", gpu); });
  return properties;
}

std::string description_of(const cudaDeviceProp& properties) {
  return fmt::format("{} ({:.1f} GiB, compute capability {}.{})", properties.name,
                     static_cast<double>(properties.totalGlobalMem) / (1 << 30), properties.major,
                     properties.minor);
}

void check_kernels(int gpu) {
  const cudaDeviceProp properties = properties_of(gpu);
  if (properties.major == 8 || (properties.major == 9 && properties.minor == 0)) return;
  throw DeviceError(fmt::format(
      "GPU {} is {}; this build has kernels for compute capability 8.x and 9.0 (add its architecture to "
      "kernels/CMakeLists.txt, or hide it with CUDA_VISIBLE_DEVICES)",
      gpu, description_of(properties)));
}

/// Streams share a GPU's queues, 8 unless it is told otherwise when CUDA starts; a wait for a peer's signal
/// holds up all streams of its queue, and among ranks that share a GPU what the peer waits for may stand
/// behind it.
void ask_for_queues() {
  static const bool asked = setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0) == 0;
  if (!asked) throw DeviceError("setting CUDA_DEVICE_MAX_CONNECTIONS=32: the environment has no memory left");
}

}  // namespace

int driver_version() {
  int version = 0;  // what CUDA says without a driver
  check(cudaDriverGetVersion(&version), [] { return "asking for the version of the CUDA driver"; });
  return version;
}

int count_gpus() {
  ask_for_queues();
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return count;
  static_cast<void>(cudaGetLastError());
  constexpr const char* on_cpu = "run with --set parallel.device=cpu to train on the processor";
  const int driver = driver_version();
  if (driver == 0) {
    throw DeviceError(
        fmt::format("no CUDA driver: this machine has no NVIDIA GPU, or its driver (libcuda.so.1) is not "
                    "installed or not "
                    "visible here (containers: --gpus all); look with nvidia-smi, or {}",
                    on_cpu));
  }
  if (code == cudaErrorInsufficientDriver) {
    throw DeviceError(
        fmt::format("the CUDA driver of this machine supports CUDA {}, and this build needs {} or newer: "
                    "update the driver "
                    "(nvidia-smi names it), or build with a toolkit of CUDA {}",
                    version_text(driver), version_text(CUDART_VERSION), version_text(driver)));
  }
  if (code == cudaErrorSystemDriverMismatch || code == cudaErrorCompatNotSupportedOnDevice) {
    throw DeviceError(
        fmt::format("the parts of the CUDA driver do not fit together: {}; after an update of the driver the "
                    "kernel module "
                    "has to be loaded again (reboot), and libcuda.so.1 must be the one that came with it",
                    describe(code)));
  }
  if (code == cudaSuccess || code == cudaErrorNoDevice) {
    throw DeviceError(fmt::format(
        "the CUDA driver sees no GPU; look with nvidia-smi -L and at CUDA_VISIBLE_DEVICES, or {}", on_cpu));
  }
  throw DeviceError(
      fmt::format("the CUDA driver does not start: {}; look with nvidia-smi, or {}", describe(code), on_cpu));
}

int choose_gpu(const LocalRank& who, bool share_devices) {
  const int gpus = count_gpus();
  int gpu = who.local_rank;
  if (who.local_ranks > gpus) {
    if (share_devices) {
      gpu = who.local_rank * gpus / who.local_ranks;
    } else if (gpus == 1) {
      gpu = 0;  // its own, if the launcher shows each rank one; placement_table tells
    } else {
      throw DeviceError(fmt::format(
          "rank {}: {} ranks on this host and {} GPUs: start {} ranks a host, use more hosts, or let ranks "
          "of one process share GPUs (comm.transport = \"inproc\", parallel.share_devices = true)",
          who.rank, who.local_ranks, gpus, gpus));
    }
  }
  check_kernels(gpu);
  return gpu;
}

Placement placement_of(int rank, int gpu) {
  Placement placement;
  placement.rank = rank;
  placement.host = host_name();
  placement.gpu = gpu;
  const cudaDeviceProp properties = properties_of(gpu);
  placement.bus = fmt::format("{:04x}:{:02x}:{:02x}", properties.pciDomainID, properties.pciBusID,
                              properties.pciDeviceID);
  placement.description = description_of(properties);
  return placement;
}

std::string to_line(const Placement& placement) {
  return fmt::format("{}\t{}\t{}\t{}\t{}", placement.rank, placement.host, placement.gpu, placement.bus,
                     placement.description);
}

Placement placement_from(const std::string& line) {
  std::array<std::string, 5> parts;
  size_t part = 0;
  for (const char c : line) {
    if (c == '\t' && part + 1 < parts.size()) {
      ++part;
    } else {
      parts[part] += c;
    }
  }
  return {std::stoi(parts[0]), parts[1], std::stoi(parts[2]), parts[3], parts[4]};
}

std::string placement_table(const std::vector<Placement>& ranks, bool share_devices) {
  std::string table;
  for (const Placement& ours : ranks) {
    for (const Placement& other : ranks) {
      if (other.rank >= ours.rank || other.host != ours.host || other.bus != ours.bus || share_devices)
        continue;
      throw DeviceError(fmt::format(
          "ranks {} and {} of host {} have the same GPU ({}, {}): give each rank its own (srun "
          "--gpus-per-task=1, or as many GPUs a host as ranks), or let ranks of one process share it "
          "(comm.transport = \"inproc\", parallel.share_devices = true)",
          other.rank, ours.rank, ours.host, ours.bus, ours.description));
    }
    table += fmt::format("rank {} → {} → GPU {} {} {}\n", ours.rank, ours.host, ours.gpu, ours.bus,
                         ours.description);
  }
  return table;
}

void enable_peer_access(int gpu, int peer) {
  if (gpu == peer) return;
  int possible = 0;
  check(cudaDeviceCanAccessPeer(&possible, gpu, peer),
        [&] { return fmt::format("asking whether GPU {} reaches GPU {}", gpu, peer); });
  if (possible == 0) {
    throw DeviceError(fmt::format(
        "GPU {} cannot read the memory of GPU {} (nvidia-smi topo -p2p r shows which can): ranks that share "
        "a "
        "process need it; start a process a rank with transport \"nccl\", or let the ranks share one GPU "
        "(parallel.share_devices = true with CUDA_VISIBLE_DEVICES={})",
        gpu, peer, gpu));
  }
  use_gpu(gpu);
  const cudaError_t code = cudaDeviceEnablePeerAccess(peer, 0);
  if (code == cudaErrorPeerAccessAlreadyEnabled) {
    static_cast<void>(cudaGetLastError());
    return;
  }
  check(code, [&] { return fmt::format("letting GPU {} read the memory of GPU {}", gpu, peer); });
}

}  // namespace penstock::cuda
