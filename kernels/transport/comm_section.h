#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace penstock {

enum class TransportChoice { automatic, inproc, mpi, nccl, tcp };
inline constexpr std::array<std::pair<std::string_view, TransportChoice>, 5> kTransportChoiceNames{
    {{"auto", TransportChoice::automatic},
     {"inproc", TransportChoice::inproc},
     {"mpi", TransportChoice::mpi},
     {"nccl", TransportChoice::nccl},
     {"tcp", TransportChoice::tcp}}};

enum class BootstrapChoice { automatic, mpi, tcp };
inline constexpr std::array<std::pair<std::string_view, BootstrapChoice>, 3> kBootstrapChoiceNames{
    {{"auto", BootstrapChoice::automatic}, {"mpi", BootstrapChoice::mpi}, {"tcp", BootstrapChoice::tcp}}};

/// [comm]: how ranks find each other and talk.
struct CommSection {
  TransportChoice transport = TransportChoice::automatic;
  BootstrapChoice bootstrap = BootstrapChoice::automatic;
  std::string address;  ///< empty: from the launcher
  int64_t port = 0;     ///< 0: from the launcher
  std::map<std::string, std::string> nccl;

  bool operator==(const CommSection&) const = default;

  template <class Visitor>
  void describe(Visitor& v) {
    v.key("transport", transport).one_of(kTransportChoiceNames).help("what carries messages");
    v.key("bootstrap", bootstrap).one_of(kBootstrapChoiceNames).help("how ranks find each other");
    v.key("address", address).none_if_empty().derived("from the launcher").help("host of the tcp rendezvous");
    v.key("port", port).between(1, 65535).derived("from the launcher").help("port of the tcp rendezvous");
    v.key("nccl", nccl).help("NCCL's own variables (NCCL_…), set before it starts and logged");
  }
};

}  // namespace penstock
