#include "kernels/transport/nccl/nccl_communicator.h"

#include <cstdio>
#include <exception>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "kernels/cuda/runtime/runtime_call.h"
#include "kernels/device/error.h"
#include "kernels/transport/nccl/nccl_call.h"

namespace penstock::transport {
namespace {

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return ncclFloat32;
    case DType::fp64:
      return ncclFloat64;
    case DType::bf16:
      return ncclBfloat16;
    case DType::fp16:
      return ncclFloat16;
    case DType::i32:
      return ncclInt32;
    case DType::i64:
      return ncclInt64;
    case DType::u8:
      return ncclUint8;
  }
  return ncclUint8;
}

ncclRedOp_t operation_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return ncclSum;
    case Reduction::maximum:
      return ncclMax;
    case Reduction::minimum:
      return ncclMin;
  }
  return ncclSum;
}

size_t count(const Tensor& tensor) {
  return static_cast<size_t>(tensor.elements());
}

}  // namespace

NcclCommunicator::NcclCommunicator(std::shared_ptr<const Identity> who, std::shared_ptr<NcclShared> shared,
                                   const NcclOptions& options, int gpu, ncclUniqueId id)
    : Communicator(std::move(who)), shared_(std::move(shared)), options_(options), gpu_(gpu) {
  bound([&] { connect(id); });
}

void NcclCommunicator::connect(ncclUniqueId id) {
  const auto connecting = [&] { return doing("connecting"); };
  if (shared_->stopped()) shared_->throw_stopped(connecting());
  cuda::use_gpu(gpu_);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;  // or nothing could be given up
  ncclComm_t comm = nullptr;
  const ncclResult_t begun = ncclCommInitRankConfig(&comm, size(), id, rank(), &config);
  check_nccl("ncclCommInitRankConfig", begun, connecting);
  handle_ = std::make_shared<NcclHandle>(who(), comm);
  shared_->add(handle_);
  shared_->finish(*handle_, "ncclCommInitRankConfig", connecting, options_.start);
  cuda::check(cudaMalloc(reinterpret_cast<void**>(&flag_), sizeof(int)), connecting);
  cuda::check(cudaMemsetAsync(flag_, 0, sizeof(int), nullptr), connecting);
  cuda::check(cudaStreamSynchronize(nullptr), connecting);
}

NcclCommunicator::~NcclCommunicator() {
  // A rank that leaves with an error does not wait for peers, who wait for it.
  if (std::uncaught_exceptions() > exceptions_)
    shared_->interruption()->stop(fmt::format("world rank {} left with an error", who()->world_rank(rank())));
  // After a stop its kernels may still hold the flag.
  if (!shared_->remove(handle_)) return;
  try {
    leave();
  } catch (const DeviceError& error) {
    if (!shared_->interruption()->stopped()) std::fprintf(stderr, "penstock: %s\n", error.what());
  }
}

void NcclCommunicator::leave() {
  const auto leaving = [&] { return doing("leaving"); };
  cuda::use_gpu(gpu_);
  try {
    // Without finalising, messages under way would be cut off.
    const auto ended = handle_->with([](ncclComm_t comm) { return ncclCommFinalize(comm); });
    if (!ended) return;
    check_nccl("ncclCommFinalize", *ended, leaving);
    shared_->finish(*handle_, "ncclCommFinalize", leaving, options_.end);
  } catch (const DeviceError&) {
    shared_->add(handle_);  // to be given up with the rest
    throw;
  }
  ncclComm_t comm = handle_->take();
  if (comm != nullptr) check_nccl("ncclCommDestroy", ncclCommDestroy(comm), leaving);
  cuda::report(cudaFree(flag_), leaving);
}

std::string NcclCommunicator::doing(const char* operation) const {
  return fmt::format("{}: {}", who()->label(), operation);
}

template <class Work>
void NcclCommunicator::bound(Work work) const {
  try {
    work();
  } catch (const std::exception& error) {
    shared_->interruption()->stop(error.what());
    throw;
  }
}

template <class Call, class Doing>
void NcclCommunicator::queue_on(Stream& stream, const char* name, Call call, const Doing& describe) {
  bound([&] {
    cuda::CudaStream& target = cuda::CudaStream::of(stream);
    if (shared_->stopped()) shared_->throw_stopped(describe());
    shared_->used_by(target.failure());
    const cudaStream_t queue = target.ready();
    const std::optional<ncclResult_t> begun =
        handle_->with([&](ncclComm_t comm) { return call(comm, queue); });
    if (!begun) shared_->throw_stopped(describe());
    check_nccl(name, *begun, describe);
    if (*begun == ncclInProgress) shared_->finish(*handle_, name, describe, options_.start);
  });
}

void NcclCommunicator::queue_exchange(Stream& stream, TransferGroup group) {
  const auto all = std::as_const(group).all();
  const auto call = [&](ncclComm_t comm, cudaStream_t queue) {
    ncclResult_t result = ncclGroupStart();
    if (result != ncclSuccess) return result;
    for (const Transfer& transfer : all) {
      if (transfer.bytes == 0) continue;  // on both sides: nothing to wait for
      result = transfer.sends
                   ? ncclSend(transfer.data, transfer.bytes, ncclUint8, transfer.peer, comm, queue)
                   : ncclRecv(transfer.data, transfer.bytes, ncclUint8, transfer.peer, comm, queue);
      if (result != ncclSuccess && result != ncclInProgress) break;
    }
    const ncclResult_t ended = ncclGroupEnd();  // also of a group that failed: the thread has left it then
    return result == ncclSuccess || result == ncclInProgress ? ended : result;
  };
  queue_on(stream, "exchange", call, [&] {
    std::string text = doing("exchange");
    for (const Transfer& transfer : all) {
      text += fmt::format("{} {} of {} bytes {} {}", &transfer == all.data() ? ":" : ",",
                          transfer.sends ? "send" : "receive", transfer.bytes, transfer.sends ? "to" : "from",
                          who()->peer_label(transfer.peer));
    }
    return text;
  });
}

void NcclCommunicator::queue_collective(Stream& stream, const Collective& collective) {
  const char* const name = penstock::transport::name_of(collective.kind);
  const auto call = [&](ncclComm_t comm, cudaStream_t queue) { return start(collective, comm, queue); };
  queue_on(stream, name, call, [&] {
    if (collective.kind == CollectiveKind::barrier) return doing(name);
    return fmt::format("{} of {} {} elements", doing(name), collective.input.elements(),
                       penstock::name_of(collective.input.dtype));
  });
}

ncclResult_t NcclCommunicator::start(const Collective& collective, ncclComm_t comm,
                                     cudaStream_t stream) const {
  const Tensor& input = collective.input;
  const Tensor& output = collective.output;
  const ncclDataType_t type = type_of(input.dtype);
  const ncclRedOp_t operation = operation_of(collective.reduction);
  switch (collective.kind) {
    case CollectiveKind::all_reduce:
      return ncclAllReduce(input.data, output.data, count(input), type, operation, comm, stream);
    case CollectiveKind::reduce_scatter:
      return ncclReduceScatter(input.data, output.data, count(output), type, operation, comm, stream);
    case CollectiveKind::all_gather:
      return ncclAllGather(input.data, output.data, input.bytes(), ncclUint8, comm, stream);
    case CollectiveKind::broadcast:
      return ncclBroadcast(input.data, output.data, input.bytes(), ncclUint8, collective.root, comm, stream);
    case CollectiveKind::barrier:
      return ncclAllReduce(flag_, flag_, 1, ncclInt32, ncclSum, comm, stream);
  }
  return ncclInternalError;
}

}  // namespace penstock::transport
