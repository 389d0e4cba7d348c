#include "kernels/transport/nccl/nccl_communicator.h"

#include <algorithm>
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
                                   ncclUniqueId id)
    : Communicator(std::move(who)), shared_(std::move(shared)) {
  const auto connecting = [&] { return doing("connecting"); };
  cuda::use_gpu(shared_->gpu());
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;  // or nothing could be given up
  config.commName = name().c_str();
  check_nccl("ncclCommInitRankConfig", ncclCommInitRankConfig(&comm_, size(), id, rank(), &config), connecting);
  try {
    shared_->finish(comm_, "ncclCommInitRankConfig", connecting());
    cuda::check(cudaMalloc(reinterpret_cast<void**>(&flag_), sizeof(int)), connecting);
    cuda::check(cudaMemset(flag_, 0, sizeof(int)), connecting);
  } catch (const DeviceError&) {
    ncclCommAbort(comm_);
    throw;
  }
  shared_->add(comm_, *this->who());
}

NcclCommunicator::~NcclCommunicator() {
  // After a stop it was aborted; its kernels may still hold the flag.
  if (!shared_->remove(comm_) || shared_->interruption()->stopped()) return;
  try {
    cuda::use_gpu(shared_->gpu());
    // Without finalising, other ranks would not be waited for, and messages under way be cut off.
    if (const ncclResult_t result = ncclCommFinalize(comm_); result == ncclSuccess || result == ncclInProgress)
      shared_->finish(comm_, "ncclCommFinalize", doing("leaving"));
    ncclCommDestroy(comm_);
    cuda::report(cudaFree(flag_), [&] { return doing("leaving"); });
  } catch (const DeviceError& error) {
    std::fprintf(stderr, "penstock: %s\n", error.what());
    ncclCommAbort(comm_);
  }
}

std::string NcclCommunicator::doing(const char* operation) const {
  return fmt::format("{}: {}", who()->label(), operation);
}

cuda::CudaStream& NcclCommunicator::used(Stream& stream, const char* operation) {
  cuda::CudaStream& target = cuda::CudaStream::of(stream);
  if (shared_->interruption()->stopped()) {
    throw DeviceError(fmt::format("{} will not come to pass: {}", doing(operation), shared_->interruption()->reason()));
  }
  shared_->used_by(target.failure());
  return target;
}

void NcclCommunicator::queue_exchange(Stream& stream, TransferGroup group) {
  const cudaStream_t target = used(stream, "exchange").ready();
  const auto exchanging = [&] { return doing("exchange"); };
  check_nccl("ncclGroupStart", ncclGroupStart(), exchanging);
  for (const Transfer& transfer : group.all()) {
    if (transfer.bytes == 0) continue;  // on both sides: nothing to wait for
    const auto one = [&] {
      return fmt::format("{} of {} bytes {} {}", doing(transfer.sends ? "exchange: send" : "exchange: receive"),
                         transfer.bytes, transfer.sends ? "to" : "from", who()->peer_label(transfer.peer));
    };
    if (transfer.sends) {
      check_nccl("ncclSend", ncclSend(transfer.data, transfer.bytes, ncclUint8, transfer.peer, comm_, target), one);
    } else {
      check_nccl("ncclRecv", ncclRecv(transfer.data, transfer.bytes, ncclUint8, transfer.peer, comm_, target), one);
    }
  }
  const ncclResult_t ended = ncclGroupEnd();
  check_nccl("ncclGroupEnd", ended, exchanging);
  if (ended == ncclInProgress) shared_->finish(comm_, "ncclGroupEnd", exchanging());
}

void NcclCommunicator::queue_collective(Stream& stream, const Collective& collective) {
  const char* const operation = penstock::transport::name_of(collective.kind);
  const cudaStream_t target = used(stream, operation).ready();
  const ncclResult_t started = start(collective, target);
  check_nccl(operation, started, [&] {
    return fmt::format("{} of {} elements", doing(operation), collective.input.elements());
  });
  if (started == ncclInProgress) shared_->finish(comm_, operation, doing(operation));
}

ncclResult_t NcclCommunicator::start(const Collective& collective, cudaStream_t stream) {
  const Tensor& input = collective.input;
  const Tensor& output = collective.output;
  switch (collective.kind) {
    case CollectiveKind::all_reduce:
      return ncclAllReduce(input.data, output.data, count(input), type_of(input.dtype),
                           operation_of(collective.reduction), comm_, stream);
    case CollectiveKind::reduce_scatter:
      return ncclReduceScatter(input.data, output.data, count(output), type_of(input.dtype),
                               operation_of(collective.reduction), comm_, stream);
    case CollectiveKind::all_gather:
      return ncclAllGather(input.data, output.data, input.bytes(), ncclUint8, comm_, stream);
    case CollectiveKind::broadcast:
      return ncclBroadcast(input.data, output.data, input.bytes(), ncclUint8, collective.root, comm_, stream);
    case CollectiveKind::barrier:
      return ncclAllReduce(flag_, flag_, 1, ncclInt32, ncclSum, comm_, stream);
  }
  return ncclInternalError;
}

}  // namespace penstock::transport
