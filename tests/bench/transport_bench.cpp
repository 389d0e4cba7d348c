// Bandwidth of messages between two processes: this project's streams against blocking MPI calls.
//   tests/bench/transport_bench     (the script: builds nothing, runs mpirun -n 2)
// Rank 0 sends, rank 1 receives and answers with one byte after each batch. Batches of both kinds alternate,
// and the best of each counts: what others do on the machine hits both alike.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <exception>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <mpi.h>

#include "kernels/cpu/device.h"
#include "kernels/transport/mpi_world.h"

namespace penstock::transport {
namespace {

constexpr int tag = 1;

void check(int code) {
  if (code != MPI_SUCCESS) throw std::runtime_error(fmt::format("an MPI call failed with code {}", code));
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Seconds for `messages` sends of `data` by blocking calls.
double blocking(int rank, int messages, std::vector<std::byte>& data) {
  const auto bytes = static_cast<int>(data.size());
  check(MPI_Barrier(MPI_COMM_WORLD));
  const auto start = std::chrono::steady_clock::now();
  std::byte answer{};
  for (int i = 0; i < messages; ++i) {
    if (rank == 0) {
      check(MPI_Send(data.data(), bytes, MPI_BYTE, 1, tag, MPI_COMM_WORLD));
    } else {
      check(MPI_Recv(data.data(), bytes, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
  }
  if (rank == 0) {
    check(MPI_Recv(&answer, 1, MPI_BYTE, 1, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  } else {
    check(MPI_Send(&answer, 1, MPI_BYTE, 0, tag, MPI_COMM_WORLD));
  }
  return seconds_since(start);
}

/// The same by exchanges queued on a stream.
double queued(Communicator& pair, Stream& stream, int messages, std::vector<std::byte>& data) {
  const Tensor tensor(data.data(), DType::u8, {static_cast<int64_t>(data.size())});
  std::byte byte{};
  const Tensor answer(&byte, DType::u8, {1});
  check(MPI_Barrier(MPI_COMM_WORLD));
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < messages; ++i)
    pair.exchange(stream, {pair.rank() == 0 ? send_to(1, tensor) : receive_from(0, tensor)});
  pair.exchange(stream, {pair.rank() == 0 ? receive_from(1, answer) : send_to(0, answer)});
  stream.synchronize();
  return seconds_since(start);
}

/// Processor time per second of waiting for a peer that is a second late, on rank 0.
double waiting_share(World& world, Communicator& pair, Stream& stream) {
  std::vector<std::byte> data(size_t{1} << 20);
  const Tensor tensor(data.data(), DType::u8, {static_cast<int64_t>(data.size())});
  world.barrier();
  if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(1));
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t before = std::clock();
  pair.exchange(stream, {world.rank() == 0 ? receive_from(1, tensor) : send_to(0, tensor)});
  stream.synchronize();
  return static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC / seconds_since(start);
}

void run() {
  constexpr int rounds = 15;
  const std::unique_ptr<World> world = make_mpi_world();
  if (world->size() != 2)
    throw std::runtime_error(fmt::format("{} ranks; start it with mpirun -n 2", world->size()));
  const auto device = cpu::make_cpu_device({});
  const auto pair = world->create("pair");
  const auto stream = device->create_stream("transfer", StreamUse::transfer);
  if (world->rank() == 0)
    fmt::print("{:>10} {:>14} {:>14} {:>8}\n", "bytes", "blocking GB/s", "stream GB/s", "ratio");
  for (const size_t bytes : {size_t{64} << 10, size_t{1} << 20, size_t{16} << 20}) {
    const int messages = static_cast<int>(std::clamp<size_t>((size_t{64} << 20) / bytes, 4, 200));
    std::vector<std::byte> data(bytes, std::byte{1});
    double best_blocking = 1e9;
    double best_queued = 1e9;
    for (int round = 0; round < rounds; ++round) {
      best_blocking = std::min(best_blocking, blocking(world->rank(), messages, data));
      best_queued = std::min(best_queued, queued(*pair, *stream, messages, data));
    }
    const double moved = static_cast<double>(bytes) * messages * 1e-9;
    if (world->rank() == 0) {
      fmt::print("{:>10} {:>14.2f} {:>14.2f} {:>8.2f}\n", bytes, moved / best_blocking, moved / best_queued,
                 best_blocking / best_queued);
    }
  }
  const double share = waiting_share(*world, *pair, *stream);
  if (world->rank() == 0)
    fmt::print("waiting a second for a late peer takes {:.1f} % of a core\n", 100 * share);
}

}  // namespace
}  // namespace penstock::transport

int main() {
  try {
    penstock::transport::run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "transport_bench: %s\n", error.what());
    return 1;
  }
}
