#include "trainer/commands/print_error.h"

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

#include <fmt/format.h>

namespace penstock::commands {

int launched_rank() {
  for (const char* name : {"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}) {
    const char* text = std::getenv(name);
    if (text == nullptr) continue;
    const std::string_view digits(text);
    int rank = 0;
    std::from_chars(digits.begin(), digits.end(), rank);
    return rank;
  }
  return 0;
}

// A launcher ends all ranks when one leaves with an error: the others let rank 0 speak first, and wait until
// they are ended. mpirun takes one to two seconds, on a busy machine.
void print_error(ExitCode code, const std::string& text) {
  constexpr std::chrono::seconds head_start(5);
  const int rank = launched_rank();
  if (rank > 0) std::this_thread::sleep_for(head_start);
  if (rank == 0) {
    fmt::print(stderr, "{}", text);
  } else if (code != ExitCode::usage) {
    fmt::print(stderr, "rank {}: {}", rank, text);
  }
}

}  // namespace penstock::commands
