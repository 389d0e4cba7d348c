#include "trainer/backend.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kernels/backend/cuda_backend.h"
#include "kernels/cpu/device.h"
#include "kernels/cpu/make_math.h"
#include "kernels/device/error.h"
#include "kernels/device/host_name.h"
#include "kernels/transport/launch.h"
#include "parallel/schedule/catalogue.h"

namespace penstock {

namespace {

Backend cpu_backend(const Job& job, int rank) {
  DeviceOptions options;
  options.rank = rank;
  options.threads = static_cast<int>(job.parallel.threads);
  Backend backend;
  backend.device = cpu::make_cpu_device(options);
  backend.math = cpu::make_math(*backend.device);
  return backend;
}

CudaRequest cuda_request(const Job& job, int rank) {
  CudaRequest request;
  request.rank = rank;
  request.share_devices = job.parallel.share_devices;
  request.attention = job.cuda.attention;
  request.tf32 = job.cuda.tf32;
  return request;
}

/// Which of the ranks on our host we are.
void find_local_rank(CudaRequest& request, transport::World& world) {
  const std::string ours = host_name();
  std::string all;
  for (const std::string& host : world.gather(ours)) all += host + '\n';
  all = world.broadcast(all, 0);
  request.local_ranks = 0;
  int rank = 0;
  for (size_t begin = 0; begin < all.size(); begin = all.find('\n', begin) + 1, ++rank) {
    if (all.substr(begin, all.find('\n', begin) - begin) != ours) continue;
    if (rank == request.rank) request.local_rank = request.local_ranks;
    ++request.local_ranks;
  }
}

/// What keeps a GPU from being used at the start is the launch's or the machine's fault, not this program's.
CudaBackend make_cuda(const CudaRequest& request) {
  try {
    return make_cuda_backend(request);
  } catch (const DeviceError& error) {
    throw transport::LaunchError(error.what());
  }
}

/// The others, who wait for rank 0's communicators, are told.
std::string placement_of(transport::World& world, const std::vector<std::string>& places,
                         bool share_devices) {
  try {
    return cuda_placement(places, share_devices);
  } catch (const DeviceError& error) {
    world.abort(error.what());
    throw transport::LaunchError(error.what());
  }
}

std::string nccl_note(const Job& job, const transport::World& world) {
  std::string note = fmt::format("transport {}", world.description());
  for (const auto& [name, value] : job.comm.nccl) note += fmt::format(", {}={}", name, value);
  return note;
}

}  // namespace

Backend make_backend(const Job& job, int rank) {
  if (job.parallel.device != DeviceChoice::cuda) return cpu_backend(job, rank);
  CudaBackend made = make_cuda(cuda_request(job, rank));
  return {std::move(made.device), std::move(made.math), std::move(made.matmul_plans), {}, nullptr};
}

Backend make_backend(const Job& job, transport::World& world) {
  const bool nccl = world.transport() == "nccl";
  if (job.parallel.device != DeviceChoice::cuda) {
    if (nccl)
      throw transport::LaunchError(
          "comm.transport = \"nccl\" carries messages between GPUs, and this machine has none that can be "
          "used "
          "(parallel.device = \"cuda\" says why); or leave it \"auto\"");
    return cpu_backend(job, world.rank());
  }
  if (world.size() > 1 && world.transport() != "inproc" && !nccl) {
    throw transport::LaunchError(fmt::format(
        "comm.transport = \"{}\" moves the processor's memory; GPUs of several processes talk by \"nccl\" "
        "(or \"auto\"), those of one process by \"inproc\"",
        world.transport()));
  }
  CudaRequest request = cuda_request(job, world.rank());
  if (nccl) request.share_devices = false;
  find_local_rank(request, world);
  CudaBackend made = make_cuda(request);
  world.attach(made.access);
  const std::vector<std::string> places = world.gather(made.place);
  std::string placement;
  if (world.rank() == 0) placement = placement_of(world, places, request.share_devices);
  Backend backend{std::move(made.device), std::move(made.math), std::move(made.matmul_plans),
                  std::move(placement), nullptr};
  if (nccl) {
    if (world.rank() == 0) backend.placement += nccl_note(job, world);
    DeviceOptions options;
    options.rank = world.rank();
    options.clock = backend.device->options().clock;
    backend.processor = cpu::make_cpu_device(options);
  }
  return backend;
}

runtime::PipelineRequest pipeline_request(const Job& job, bool logits) {
  runtime::PipelineRequest request;
  request.parallel = job.parallel;
  request.common.model = job.model;
  request.common.compute = model::compute_dtype(job.precision.compute);
  // One rank has no wire.
  if (job.parallel.pipeline > 1) request.common.wire = model::compute_dtype(job.precision.p2p);
  request.common.micro_batch = job.batch.micro;
  request.common.micro_batches = job.micro_batches();
  request.common.document_mask = job.data.document_mask;
  request.common.seed = job.run.seed;
  request.common.optimizer = job.optimizer;
  request.common.weight_versions = schedule::versions_of(job.parallel.schedule);
  request.common.gradient_sets = request.common.weight_versions;
  request.recompute = job.recompute;
  request.gradient_wire = model::compute_dtype(job.precision.gradient_reduce);
  request.logits = logits;
  request.graphs = job.cuda.graphs && job.parallel.device == DeviceChoice::cuda;
  return request;
}

}  // namespace penstock
