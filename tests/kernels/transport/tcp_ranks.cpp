#include "tests/kernels/transport/tcp_ranks.h"

#include <exception>
#include <thread>

#include "kernels/transport/tcp/socket.h"

namespace penstock::transport {

int free_port() {
  return Socket::listen(0).local().port;
}

std::vector<std::string> run_tcp(int ranks, const std::function<void(World&)>& body) {
  const int port = free_port();
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  threads.reserve(errors.size());
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        const auto world = make_tcp_world({rank, ranks, "127.0.0.1", port, "test"});
        const AbortOnUnwind guard(*world);
        body(*world);
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace penstock::transport
