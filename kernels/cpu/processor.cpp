#include "kernels/cpu/processor.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>

#include <fmt/format.h>
#include <sched.h>

#include "kernels/device/error.h"

namespace penstock::cpu {
namespace {

/// The value of the first line "key : value" of /proc/cpuinfo; empty if there is none (as on other
/// architectures).
std::string cpuinfo(std::string_view key) {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const size_t key_end = line.find_last_not_of(" \t", colon - 1);
    if (key_end != std::string::npos && std::string_view(line).substr(0, key_end + 1) == key)
      return line.substr(colon + 2);
  }
  return {};
}

bool has_bf16_flag() {
  std::istringstream flags(cpuinfo("flags"));
  std::string flag;
  while (flags >> flag) {
    if (flag == "avx512_bf16" || flag == "amx_bf16") return true;
  }
  return false;
}

}  // namespace

std::string processor_name() {
  std::string name = cpuinfo("model name");
  return name.empty() ? "unknown processor" : name;
}

std::vector<int> allowed_processors() {
  // The kernel refuses masks that are shorter than its own.
  for (size_t size = 1024; size <= 1024 * 1024; size *= 4) {
    std::vector<cpu_set_t> mask(CPU_ALLOC_SIZE(size) / sizeof(cpu_set_t) + 1);
    const size_t bytes = mask.size() * sizeof(cpu_set_t);
    if (::sched_getaffinity(0, bytes, mask.data()) != 0) {
      if (errno == EINVAL) continue;
      break;
    }
    std::vector<int> allowed;
    for (size_t at = 0; at < 8 * bytes; ++at) {
      if (CPU_ISSET_S(at, bytes, mask.data()) != 0) allowed.push_back(static_cast<int>(at));
    }
    return allowed;
  }
  throw DeviceError(
      fmt::format("cannot ask which processors this thread may run on: {}", std::strerror(errno)));
}

bool processor_has_bf16() {
  static const bool has = has_bf16_flag();
  return has;
}

}  // namespace penstock::cpu
