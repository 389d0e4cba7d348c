// What kernels do.
#include "tests/fake_cuda/nccl/clique.h"

#include <chrono>
#include <cstring>
#include <stdexcept>

#include "kernels/transport/reduce_elements.h"
#include "tests/fake_cuda/fake_cuda.h"

namespace penstock::fake_nccl {
namespace {

using transport::Reduction;

DType dtype_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat32:
      return DType::fp32;
    case ncclFloat64:
      return DType::fp64;
    case ncclBfloat16:
      return DType::bf16;
    case ncclFloat16:
      return DType::fp16;
    case ncclInt32:
      return DType::i32;
    case ncclInt64:
      return DType::i64;
    default:
      return DType::u8;
  }
}

Reduction reduction_of(ncclRedOp_t operation) {
  return operation == ncclMax   ? Reduction::maximum
         : operation == ncclMin ? Reduction::minimum
                                : Reduction::sum;
}

class Kernel {
 public:
  Kernel(ncclComm& comm, cudaStream_t stream)
      : comm_(comm), clique_(*comm.clique), stream_(stream), lock_(clique_.mutex) {}

  void exchange(const std::vector<Operation>& group) {
    std::vector<std::shared_ptr<Offer>> offers;
    for (const Operation& each : group)
      if (each.kind == Kind::send) offers.push_back(offer(each));
    clique_.changed.notify_all();
    for (const Operation& each : group)
      if (each.kind == Kind::receive && !receive(each)) break;
    for (const auto& each : offers) {
      if (wait([&] { return each->taken || !each->copy.empty(); })) continue;
      each->withdrawn = true;
    }
  }

  void collective(const Operation& ours, uint64_t number) {
    Round& round = clique_.rounds[number];
    round.calls.resize(static_cast<size_t>(clique_.ranks));
    round.calls[static_cast<size_t>(comm_.rank)] = ours;
    ++round.arrived;
    if (round.arrived == clique_.ranks) {
      for (const Operation& each : round.calls) {
        if (each.kind != ours.kind || each.count != ours.count || each.type != ours.type ||
            each.reduction != ours.reduction || each.peer != ours.peer)
          throw std::runtime_error("ranks that do different collectives");
      }
      compute(round);
      clique_.changed.notify_all();
    }
    if (!wait([&] { return round.arrived == clique_.ranks; })) {
      --round.arrived;  // nobody may take our memory any more
      return;
    }
    if (++round.left == clique_.ranks) clique_.rounds.erase(number);
  }

 private:
  template <class Condition>
  bool wait(Condition condition) {
    constexpr std::chrono::milliseconds poll(1);
    while (!condition()) {
      if (comm_.aborted || fake_cuda::context_lost(stream_)) return false;
      clique_.changed.wait_for(lock_, poll);
    }
    return true;
  }

  std::shared_ptr<Offer> offer(const Operation& send) {
    auto made = std::make_shared<Offer>();
    made->data = static_cast<const std::byte*>(send.from);
    made->bytes = send.count;
    if (fake_cuda::settings().buffered) {
      made->copy.assign(made->data, made->data + made->bytes);
      made->data = made->copy.data();
    }
    clique_.channel(comm_.rank, send.peer).offers.push_back(made);
    return made;
  }

  bool receive(const Operation& call) {
    std::deque<std::shared_ptr<Offer>>& offers = clique_.channel(call.peer, comm_.rank).offers;
    if (!wait([&] { return !offers.empty() && !offers.front()->withdrawn; })) return false;
    const std::shared_ptr<Offer> found = offers.front();
    offers.pop_front();
    if (found->bytes != call.count) throw std::runtime_error("a receive of another size than its send");
    std::memcpy(call.to, found->data, call.count);
    found->taken = true;
    clique_.changed.notify_all();
    return true;
  }

  void compute(const Round& round) {
    const Operation& one = round.calls.front();
    const size_t bytes = one.count * size_of(one.type);
    const auto ranks = static_cast<size_t>(clique_.ranks);
    std::vector<std::byte> result;
    if (one.kind == Kind::broadcast) {
      const auto* from = static_cast<const std::byte*>(round.calls[static_cast<size_t>(one.peer)].from);
      result.assign(from, from + bytes);
    } else if (one.kind == Kind::all_gather) {
      for (const Operation& each : round.calls) {
        const auto* from = static_cast<const std::byte*>(each.from);
        result.insert(result.end(), from, from + bytes);
      }
    } else {
      result.resize(one.kind == Kind::reduce_scatter ? ranks * bytes : bytes);
      std::vector<const void*> inputs;
      for (auto each = round.calls.rbegin(); each != round.calls.rend(); ++each) inputs.push_back(each->from);
      void* const output = result.data();
      transport::reduce_elements(dtype_of(one.type), reduction_of(one.reduction), inputs, 0, {&output, 1}, 0,
                                 static_cast<int64_t>(result.size() / size_of(one.type)));
    }
    for (size_t rank = 0; rank < ranks; ++rank) {
      const bool scatters = one.kind == Kind::reduce_scatter;
      std::memcpy(round.calls[rank].to, result.data() + (scatters ? rank * bytes : 0),
                  scatters ? bytes : result.size());
    }
  }

  ncclComm& comm_;
  Clique& clique_;
  cudaStream_t stream_;
  std::unique_lock<std::mutex> lock_;
};

}  // namespace

size_t size_of(ncclDataType_t type) {
  return penstock::size_of(dtype_of(type));
}

void run(ncclComm& comm, cudaStream_t stream, const std::vector<Operation>& group, uint64_t number) {
  Kernel kernel(comm, stream);
  if (group.front().kind == Kind::send || group.front().kind == Kind::receive) {
    kernel.exchange(group);
  } else {
    kernel.collective(group.front(), number);
  }
}

}  // namespace penstock::fake_nccl
