#include "kernels/transport/tcp_place.h"

#include <charconv>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "kernels/transport/launch.h"

namespace penstock::transport {
namespace {

using Variables = std::function<const char*(const char*)>;

std::string text_in(const Variables& variable, const char* name) {
  const char* text = variable(name);
  return text == nullptr ? "" : text;
}

std::optional<int> number_in(const Variables& variable, const char* name) {
  const char* text = variable(name);
  if (text == nullptr) return std::nullopt;
  int value = 0;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || value < 0)
    throw LaunchError(
        fmt::format("{} = \"{}\" in the environment: expected a number of at least 0", name, text));
  return value;
}

/// Below where systems take ports for outgoing connections, and the same in all processes of a start.
int port_of(const std::string& start) {
  uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : start) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return 20000 + static_cast<int>(hash % 10000);
}

void read_variables(const Variables& variable, TcpPlace& place) {
  place.address = text_in(variable, "MASTER_ADDR");
  place.port = number_in(variable, "MASTER_PORT").value_or(0);
  place.attempt = text_in(variable, "TORCHELASTIC_RUN_ID");
}

void read_slurm(const Variables& variable, TcpPlace& place) {
  place.address = first_host(text_in(variable, "SLURM_STEP_NODELIST"));
  place.attempt = fmt::format("{}.{}.{}", text_in(variable, "SLURM_JOB_ID"),
                              text_in(variable, "SLURM_STEP_ID"), text_in(variable, "SLURM_RESTART_COUNT"));
  place.port = port_of(place.attempt);
}

void read_mpirun(const Variables& variable, TcpPlace& place) {
  if (number_in(variable, "OMPI_COMM_WORLD_LOCAL_SIZE") == place.ranks) place.address = "127.0.0.1";
  place.attempt = text_in(variable, "PMIX_NAMESPACE");
  place.port = port_of(place.attempt);
}

struct Starter {
  const char* rank;
  const char* ranks;
  void (*read)(const Variables&, TcpPlace&);
};
constexpr Starter starters[] = {{"RANK", "WORLD_SIZE", read_variables},
                                {"SLURM_PROCID", "SLURM_NTASKS", read_slurm},
                                {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", read_mpirun}};

}  // namespace

std::string first_host(const std::string& node_list) {
  std::string host;
  for (size_t at = 0; at < node_list.size() && node_list[at] != ','; ++at) {
    if (node_list[at] != '[') {
      host += node_list[at];
      continue;
    }
    // The first number of the bracket; what follows the bracket belongs to the name.
    for (++at; at < node_list.size() && node_list[at] != ',' && node_list[at] != '-' && node_list[at] != ']';
         ++at)
      host += node_list[at];
    at = node_list.find(']', at);
    if (at == std::string::npos) break;
  }
  return host;
}

TcpPlace read_tcp_place(const Variables& variable, const std::string& address, int port) {
  for (const Starter& starter : starters) {
    const std::optional<int> rank = number_in(variable, starter.rank);
    const std::optional<int> ranks = number_in(variable, starter.ranks);
    // srun's variables are there in a batch script too, where nobody started ranks.
    const bool in_script = starter.read == read_slurm && variable("SLURM_STEP_NODELIST") == nullptr;
    if (!rank || !ranks || in_script) continue;
    TcpPlace place;
    place.rank = *rank;
    place.ranks = *ranks;
    place.address.clear();
    starter.read(variable, place);
    if (!address.empty()) place.address = address;
    if (port != 0) place.port = port;
    if (place.address.empty() || place.port == 0) {
      throw LaunchError(fmt::format(
          "ranks meet by tcp: rank {} of {} ({}) does not know where rank 0 is: set {}", place.rank,
          place.ranks, starter.rank,
          place.address.empty() ? "comm.address, or MASTER_ADDR in the environment, to rank 0's host"
                                : "comm.port, or MASTER_PORT in the environment, to a free port there"));
    }
    if (place.port > 65535)
      throw LaunchError(fmt::format("MASTER_PORT = {}: ports are 1 to 65535", place.port));
    if (place.ranks < 1 || place.rank >= place.ranks) {
      throw LaunchError(fmt::format("{} = {} and {} = {} in the environment: ranks are 0 to {} - 1",
                                    starter.rank, place.rank, starter.ranks, place.ranks, starter.ranks));
    }
    return place;
  }
  throw LaunchError(
      "ranks meet by tcp, but nothing says which rank this process is: start it with srun or mpirun, "
      "or once a "
      "rank with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in its environment");
}

}  // namespace penstock::transport
