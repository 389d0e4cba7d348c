#include "kernels/transport/mpi/mpi_collective.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/device/error.h"
#include "kernels/transport/mpi/mpi_call.h"
#include "kernels/transport/mpi/patience.h"

namespace penstock::transport {
namespace {

constexpr size_t long_bytes = 32 * 1024;  ///< shorter ones are over before a barrier would be

class CollectiveRun {
 public:
  CollectiveRun(const MpiShared& shared, const Identity& who, MPI_Comm comm, const Collective& collective)
      : shared_(shared),
        who_(who),
        comm_(comm),
        collective_(collective),
        type_(mpi_type(collective.output.dtype)),
        most_elements_(
            static_cast<int64_t>(shared.options().piece_bytes / size_of(collective.output.dtype))) {}

  void run() {
    if (collective_.kind == CollectiveKind::barrier) return barrier();
    if (std::max(collective_.input.bytes(), collective_.output.bytes()) >= long_bytes) barrier();
    switch (collective_.kind) {
      case CollectiveKind::all_reduce:
        return all_reduce();
      case CollectiveKind::reduce_scatter:
        return reduce_scatter();
      case CollectiveKind::all_gather:
        return all_gather();
      case CollectiveKind::broadcast:
        return broadcast(collective_.output.data, collective_.output.elements(), collective_.root);
      case CollectiveKind::barrier:
        return;
    }
  }

 private:
  void barrier() {
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = MPI_Ibarrier(comm_, &request);
    complete("MPI_Ibarrier", code, request, 0);
  }

  void all_reduce() {
    const bool in_place = collective_.input.data == collective_.output.data;
    in_pieces(collective_.output.elements(), [&](int64_t from, int count) {
      MPI_Request request = MPI_REQUEST_NULL;
      const int code =
          MPI_Iallreduce(in_place ? MPI_IN_PLACE : at(collective_.input.data, from),
                         at(collective_.output.data, from), count, type_, operation(), comm_, &request);
      complete("MPI_Iallreduce", code, request, count);
    });
  }

  void reduce_scatter() {
    const int64_t block = collective_.output.elements();
    if (block <= most_elements_) {
      MPI_Request request = MPI_REQUEST_NULL;
      const int code =
          MPI_Ireduce_scatter_block(collective_.input.data, collective_.output.data, static_cast<int>(block),
                                    type_, operation(), comm_, &request);
      complete("MPI_Ireduce_scatter_block", code, request, collective_.input.elements());
      return;
    }
    for (int root = 0; root < who_.size(); ++root) {  // blocks that MPI cannot count: one reduction each
      in_pieces(block, [&](int64_t from, int count) {
        MPI_Request request = MPI_REQUEST_NULL;
        const int code = MPI_Ireduce(at(collective_.input.data, root * block + from),
                                     who_.rank == root ? at(collective_.output.data, from) : nullptr, count,
                                     type_, operation(), root, comm_, &request);
        complete("MPI_Ireduce", code, request, count);
      });
    }
  }

  void all_gather() {
    const int64_t block = collective_.input.elements();
    void* const own = at(collective_.output.data, who_.rank * block);
    const bool in_place = collective_.input.data == own;
    if (block <= most_elements_) {
      MPI_Request request = MPI_REQUEST_NULL;
      const int code =
          MPI_Iallgather(in_place ? MPI_IN_PLACE : collective_.input.data, static_cast<int>(block), type_,
                         collective_.output.data, static_cast<int>(block), type_, comm_, &request);
      complete("MPI_Iallgather", code, request, collective_.output.elements());
      return;
    }
    if (!in_place)
      std::copy_n(static_cast<const std::byte*>(collective_.input.data), collective_.input.bytes(),
                  static_cast<std::byte*>(own));
    for (int root = 0; root < who_.size(); ++root)  // blocks that MPI cannot count: one broadcast each
      broadcast(at(collective_.output.data, root * block), block, root);
  }

  void broadcast(void* data, int64_t elements, int root) {
    in_pieces(elements, [&](int64_t from, int count) {
      MPI_Request request = MPI_REQUEST_NULL;
      const int code = MPI_Ibcast(at(data, from), count, type_, root, comm_, &request);
      complete("MPI_Ibcast", code, request, count);
    });
  }

  template <class Start>
  void in_pieces(int64_t elements, Start start) {
    int64_t from = 0;
    do {
      const int64_t count = std::min(most_elements_, elements - from);
      start(from, static_cast<int>(count));
      from += count;
    } while (from < elements);
  }

  void complete(const char* call, int code, MPI_Request request, int64_t elements) const {
    const auto doing = [this] { return describe(); };
    check_mpi(call, code, doing);
    const size_t bytes = static_cast<size_t>(elements) * size_of(collective_.output.dtype);
    wait_for(request, call, shared_, bytes >= long_bytes ? bytes : 0, doing);
  }

  std::string describe() const {
    if (collective_.kind == CollectiveKind::barrier) return fmt::format("{}: barrier", who_.label());
    return fmt::format("{}: {} of {} {} elements{}", who_.label(), name_of(collective_.kind),
                       collective_.input.elements(), name_of(collective_.input.dtype),
                       collective_.kind == CollectiveKind::broadcast
                           ? fmt::format(" from {}", who_.peer_label(collective_.root))
                           : "");
  }

  void* at(void* data, int64_t element) const {
    return static_cast<std::byte*>(data) + static_cast<size_t>(element) * size_of(collective_.output.dtype);
  }
  MPI_Op operation() const { return shared_.operation(collective_.output.dtype, collective_.reduction); }

  const MpiShared& shared_;
  const Identity& who_;
  const MPI_Comm comm_;
  const Collective& collective_;
  const MPI_Datatype type_;
  const int64_t most_elements_;  ///< of one call
};

}  // namespace

void wait_for(MPI_Request request, const char* call, const MpiShared& shared, size_t flowing_bytes,
              const std::function<std::string()>& doing) {
  const Interruption& interruption = *shared.interruption();
  const Patience patience(shared.crowded());
  for (;;) {
    int done = 0;
    check_mpi(call, MPI_Test(&request, &done, MPI_STATUS_IGNORE), doing);
    if (done != 0) return;
    // A collective cannot be cancelled; the process leaves without finalising.
    if (interruption.stopped())
      throw DeviceError(fmt::format("{} will not come to pass: {}", doing(), interruption.reason()));
    patience.pause(flowing_bytes);
  }
}

void run_collective(const MpiShared& shared, const Identity& who, MPI_Comm comm,
                    const Collective& collective) {
  CollectiveRun(shared, who, comm, collective).run();
}

}  // namespace penstock::transport
