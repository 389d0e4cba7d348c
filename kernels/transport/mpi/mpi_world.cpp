#include "kernels/transport/mpi_world.h"

#include <cstdint>
#include <numeric>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <mpi.h>

#include "kernels/device/error.h"
#include "kernels/transport/mpi/mpi_call.h"
#include "kernels/transport/mpi/mpi_collective.h"
#include "kernels/transport/mpi/mpi_communicator.h"

namespace penstock::transport {
namespace {

std::string starting() {
  return "starting MPI";
}

void initialise() {
  int initialised = 0;
  check_mpi("MPI_Initialized", MPI_Initialized(&initialised), starting);
  if (initialised != 0) throw DeviceError("MPI was initialised before; a process has one MPI world");
  int provided = MPI_THREAD_SINGLE;
  check_mpi("MPI_Init_thread", MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), starting);
  if (provided < MPI_THREAD_MULTIPLE) {
    MPI_Finalize();
    throw DeviceError(
        fmt::format("MPI grants thread level {} and streams need {} (MPI_THREAD_MULTIPLE): use an MPI "
                    "library built with it",
                    provided, MPI_THREAD_MULTIPLE));
  }
  check_mpi("MPI_Comm_set_errhandler", MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), starting);
}

int rank_in_world() {
  int rank = 0;
  check_mpi("MPI_Comm_rank", MPI_Comm_rank(MPI_COMM_WORLD, &rank), starting);
  return rank;
}

int size_of_world() {
  int size = 0;
  check_mpi("MPI_Comm_size", MPI_Comm_size(MPI_COMM_WORLD, &size), starting);
  return size;
}

/// On this machine.
bool more_ranks_than_processors() {
  MPI_Comm machine = MPI_COMM_NULL;
  check_mpi("MPI_Comm_split_type",
            MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine), starting);
  int ranks = 0;
  check_mpi("MPI_Comm_size", MPI_Comm_size(machine, &ranks), starting);
  MPI_Comm_free(&machine);
  return static_cast<unsigned>(ranks) > std::thread::hardware_concurrency();
}

class MpiWorld final : public World {
 public:
  explicit MpiWorld(const MpiOptions& options)
      : World(rank_in_world(), size_of_world()),
        shared_(std::make_shared<MpiShared>(options, more_ranks_than_processors())) {
    check_mpi("MPI_Comm_dup", MPI_Comm_dup(MPI_COMM_WORLD, &control_), starting);
    check_mpi("MPI_Comm_set_errhandler", MPI_Comm_set_errhandler(control_, MPI_ERRORS_RETURN), starting);
  }
  ~MpiWorld() override {
    // Finalising waits for the peers, who may be gone. A process that leaves without it ends the job.
    if (stopped()) return;
    MPI_Comm_free(&control_);
    shared_.reset();
    MPI_Finalize();
  }
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  std::string_view transport() const override { return "mpi"; }
  void abort(const std::string& reason) override { shared_->interruption()->stop(reason); }
  bool stopped() const override { return shared_->interruption()->stopped(); }
  std::string stop_reason() const override { return shared_->interruption()->reason(); }

 private:
  std::vector<std::string> share(std::string_view bytes) override {
    const auto doing = [this] { return fmt::format("world rank {}: agreement of the ranks", rank()); };
    const auto ranks = static_cast<size_t>(size());
    const auto ours = static_cast<int64_t>(bytes.size());
    std::vector<int64_t> sizes(ranks);
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi("MPI_Iallgather",
              MPI_Iallgather(&ours, 1, MPI_INT64_T, sizes.data(), 1, MPI_INT64_T, control_, &request), doing);
    wait_for(request, "MPI_Iallgather", *shared_, 0, doing);

    const int64_t total = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
    if (total > INT32_MAX) {
      throw UsageError(
          fmt::format("{}: {} bytes in all; at most {} can be shared", doing(), total, INT32_MAX));
    }
    std::vector<int> counts(sizes.begin(), sizes.end());
    std::vector<int> offsets(ranks, 0);
    std::partial_sum(counts.begin(), counts.end() - 1, offsets.begin() + 1);
    std::string all(static_cast<size_t>(total), '\0');
    check_mpi("MPI_Iallgatherv",
              MPI_Iallgatherv(bytes.data(), static_cast<int>(ours), MPI_BYTE, all.data(), counts.data(),
                              offsets.data(), MPI_BYTE, control_, &request),
              doing);
    wait_for(request, "MPI_Iallgatherv", *shared_, 0, doing);
    std::vector<std::string> result(ranks);
    for (size_t i = 0; i < ranks; ++i)
      result[i] = all.substr(static_cast<size_t>(offsets[i]), static_cast<size_t>(counts[i]));
    return result;
  }

  std::unique_ptr<Communicator> make_communicator(const std::string& name, const std::vector<int>& members,
                                                  int our_rank) override {
    const auto doing = [&] {
      return fmt::format("world rank {}: creating communicator \"{}\"", rank(), name);
    };
    MPI_Comm comm = MPI_COMM_NULL;
    const bool member = our_rank >= 0;
    check_mpi("MPI_Comm_split",
              MPI_Comm_split(control_, member ? 0 : MPI_UNDEFINED, member ? our_rank : 0, &comm), doing);
    if (!member) return nullptr;
    check_mpi("MPI_Comm_set_errhandler", MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), doing);
    return std::make_unique<MpiCommunicator>(
        std::make_shared<const Identity>(Identity{name, members, our_rank}), shared_, comm);
  }

  std::shared_ptr<MpiShared> shared_;
  MPI_Comm control_ = MPI_COMM_NULL;
};

}  // namespace

bool mpi_built_in() {
  return true;
}

std::unique_ptr<World> make_mpi_world(const MpiOptions& options) {
  initialise();
  return std::make_unique<MpiWorld>(options);
}

}  // namespace penstock::transport
