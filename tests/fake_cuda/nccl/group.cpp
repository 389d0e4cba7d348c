// Messages and collectives: calls, groups, launches.
#include <exception>
#include <utility>

#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/nccl/library.h"

namespace penstock::fake_nccl {
namespace {

struct Call {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  Operation operation;
};

thread_local int depth = 0;
thread_local std::vector<Call> calls;
thread_local ncclResult_t failed = ncclSuccess;

bool is_message(const Operation& operation) {
  return operation.kind == Kind::send || operation.kind == Kind::receive;
}

bool a_gpu_reads(const void* memory) {
  const std::lock_guard lock(fake_cuda::state().mutex);
  return fake_cuda::range_of(memory) != nullptr;
}

/// Both hosts have asked for what this group needs. Asks for it.
bool connected(ncclComm& comm) {
  Clique& clique = *comm.clique;
  const std::lock_guard lock(clique.mutex);
  bool all = true;
  for (const Operation& each : comm.waiting) {
    if (is_message(each)) {
      const bool sends = each.kind == Kind::send;
      Channel& channel = sends ? clique.channel(comm.rank, each.peer) : clique.channel(each.peer, comm.rank);
      (sends ? channel.sender_asked : channel.receiver_asked) = true;
      all = all && channel.sender_asked && channel.receiver_asked;
    } else {
      clique.collective_asked[static_cast<size_t>(comm.rank)] = true;
      for (const bool asked : clique.collective_asked) all = all && asked;
    }
  }
  return all;
}

/// For the time of a launch, which may be another thread's than the one that called.
class OnGpu {
 public:
  explicit OnGpu(int gpu) : before_(fake_cuda::current_gpu()) { fake_cuda::set_current_gpu(gpu); }
  ~OnGpu() { fake_cuda::set_current_gpu(before_); }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

 private:
  const int before_;
};

void launch(ncclComm& comm) {
  const OnGpu on(comm.gpu);
  const std::vector<Operation> group = std::exchange(comm.waiting, {});
  cudaStream_t stream = comm.waiting_stream;
  const uint64_t number = is_message(group.front()) ? 0 : comm.collectives++;
  const auto started = std::make_shared<fake_cuda::Record>();
  const auto ended = std::make_shared<fake_cuda::Record>();
  const auto before = std::exchange(comm.last, ended);
  auto& latest = library().started[static_cast<size_t>(comm.gpu)];
  const auto launched = std::exchange(latest, started);
  ++comm.under_way;
  // Streams wait, as for events; then the kernel waits for its place.
  stream->enqueue({[before, launched, in_order = comm.in_order] {
                     if (before) before->wait();
                     if (launched && in_order) launched->wait();
                   },
                   true});
  const cudaError_t code = fake_cuda::enqueue_communication(stream, [&comm, stream, group, number, started] {
    started->finish();
    run(comm, stream, group, number);
  });
  stream->enqueue({[&comm, started, ended] {
                     started->finish();
                     ended->finish();
                     --comm.under_way;
                     fake_cuda::note_change();
                   },
                   true});
  if (code != cudaSuccess) comm.broken = ncclUnhandledCudaError;
}

ncclResult_t submit(ncclComm& comm, std::vector<Operation> group, cudaStream_t stream) {
  if (group.empty()) return ncclSuccess;
  if (!comm.waiting.empty()) return ncclInvalidUsage;  // the one before is in progress
  comm.waiting = std::move(group);
  comm.waiting_stream = stream;
  // Real launches too may happen in the background.
  if (fake_cuda::settings().shuffle_seed != 0) return ncclInProgress;
  return launch_if_connected(comm) ? ncclSuccess : ncclInProgress;
}

/// The calls of one group, communicator by communicator.
ncclResult_t submit_all() {
  const std::vector<Call> all = std::exchange(calls, {});
  ncclResult_t result = std::exchange(failed, ncclSuccess);
  if (result != ncclSuccess) return result;
  const std::lock_guard lock(library().mutex);
  std::set<ncclComm_t> done;
  for (const Call& first : all) {
    if (!done.insert(first.comm).second) continue;
    std::vector<Operation> group;
    for (const Call& each : all) {
      if (each.comm != first.comm) continue;
      if (each.stream != first.stream) return ncclInvalidUsage;
      group.push_back(each.operation);
    }
    const ncclResult_t one = submit(*first.comm, std::move(group), first.stream);
    if (one != ncclSuccess) result = one;
    if (one != ncclSuccess && one != ncclInProgress) return one;
  }
  return result;
}

ncclResult_t add(const char* name, ncclComm_t comm, cudaStream_t stream, const Operation& operation) {
  ncclResult_t result = ncclSuccess;
  {
    const std::lock_guard lock(library().mutex);
    result = planned(name);
    if (result == ncclSuccess && library().alive.count(comm) == 0) result = ncclInvalidArgument;
  }
  const bool sends = operation.kind != Kind::receive;
  const bool receives = operation.kind != Kind::send;
  if (result == ncclSuccess && operation.count > 0 &&
      ((sends && !a_gpu_reads(operation.from)) || (receives && !a_gpu_reads(operation.to))))
    result = ncclInvalidArgument;
  if (result == ncclSuccess && (operation.peer < 0 || operation.peer >= comm->clique->ranks))
    result = ncclInvalidArgument;
  if (result != ncclSuccess) {
    if (depth > 0) failed = result;
    return result;
  }
  if (operation.count > 0) calls.push_back({comm, stream, operation});
  return depth > 0 ? ncclSuccess : submit_all();
}

}  // namespace

bool launch_if_connected(ncclComm& comm) {
  if (comm.waiting.empty()) return true;
  if (!connected(comm)) return false;
  launch(comm);
  return true;
}

extern "C" {

ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (depth == 0) return ncclInvalidUsage;
  if (--depth > 0) return ncclSuccess;
  ncclResult_t result = ncclSuccess;
  {
    const std::lock_guard lock(library().mutex);
    result = planned("ncclGroupEnd");
  }
  if (result != ncclSuccess) failed = result;
  return submit_all();
}

ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add("ncclSend", comm, stream,
             {Kind::send, data, nullptr, count * size_of(type), ncclUint8, ncclSum, peer});
}

ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add("ncclRecv", comm, stream,
             {Kind::receive, nullptr, data, count * size_of(type), ncclUint8, ncclSum, peer});
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
  return add("ncclAllReduce", comm, stream, {Kind::all_reduce, from, to, count, type, reduction, 0});
}

ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type,
                               ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
  return add("ncclReduceScatter", comm, stream, {Kind::reduce_scatter, from, to, count, type, reduction, 0});
}

ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return add("ncclAllGather", comm, stream, {Kind::all_gather, from, to, count, type, ncclSum, 0});
}

ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return add("ncclBroadcast", comm, stream, {Kind::broadcast, from, to, count, type, ncclSum, root});
}

}  // extern "C"

}  // namespace penstock::fake_nccl
