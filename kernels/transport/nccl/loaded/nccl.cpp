// The calls of NCCL that the transport makes, each looked up at its first use.
#include <type_traits>

#include <fmt/format.h>
#include <nccl.h>

#include "kernels/cuda/loaded/library.h"

namespace {

penstock::cuda::loaded::Library& library() {
  static penstock::cuda::loaded::Library opened(fmt::format("libnccl.so.{}", NCCL_MAJOR),
                                                fmt::format("NCCL {} (libnccl{})", NCCL_MAJOR, NCCL_MAJOR));
  return opened;
}

/// forward<ncclSend>("ncclSend", data, …).
template <auto* declared, class... Arguments>
auto forward(const char* name, Arguments... arguments) {
  static auto* const found = library().function<std::remove_pointer_t<decltype(declared)>>(name);
  return found(arguments...);
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  return forward<ncclGetVersion>("ncclGetVersion", version);
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId) {
  return forward<ncclGetUniqueId>("ncclGetUniqueId", uniqueId);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                    ncclConfig_t* config) {
  return forward<ncclCommInitRankConfig>("ncclCommInitRankConfig", comm, nranks, commId, rank, config);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return forward<ncclCommFinalize>("ncclCommFinalize", comm);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return forward<ncclCommDestroy>("ncclCommDestroy", comm);
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return forward<ncclCommAbort>("ncclCommAbort", comm);
}

const char* ncclGetErrorString(ncclResult_t result) {
  return forward<ncclGetErrorString>("ncclGetErrorString", result);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  return forward<ncclCommGetAsyncError>("ncclCommGetAsyncError", comm, asyncError);
}

ncclResult_t ncclGroupStart() {
  return forward<ncclGroupStart>("ncclGroupStart");
}

ncclResult_t ncclGroupEnd() {
  return forward<ncclGroupEnd>("ncclGroupEnd");
}

ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return forward<ncclSend>("ncclSend", sendbuff, count, datatype, peer, comm, stream);
}

ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return forward<ncclRecv>("ncclRecv", recvbuff, count, datatype, peer, comm, stream);
}

ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return forward<ncclAllReduce>("ncclAllReduce", sendbuff, recvbuff, count, datatype, op, comm, stream);
}

ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  return forward<ncclReduceScatter>("ncclReduceScatter", sendbuff, recvbuff, recvcount, datatype, op, comm,
                                    stream);
}

ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
                           ncclComm_t comm, cudaStream_t stream) {
  return forward<ncclAllGather>("ncclAllGather", sendbuff, recvbuff, sendcount, datatype, comm, stream);
}

ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return forward<ncclBroadcast>("ncclBroadcast", sendbuff, recvbuff, count, datatype, root, comm, stream);
}

}  // extern "C"
