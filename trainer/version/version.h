#pragma once

#include <string>
#include <utility>
#include <vector>

namespace penstock {

/// What this program was built from and with.
struct BuildInfo {
  std::string version;     ///< "0.1.0"
  std::string git_id;      ///< `git describe --always --dirty` at build time; "unknown" outside a checkout
  std::string compiler;    ///< "GNU 12.2.0"
  std::string build_type;  ///< "Release"
  std::string sanitizers;  ///< "address,undefined"; empty: none
  std::string cpu_target;  ///< -march of the CPU kernels
  bool cuda = false;       ///< the CUDA backend is built in
  std::vector<std::pair<std::string, std::string>> libraries;  ///< name and version, as found by the build
};

const BuildInfo& build_info();

/// What `penstock --version` prints: a line "penstock 0.1.0 (v0.1-3-gabcdef)", then compiler and libraries.
std::string version_text();

}  // namespace penstock
