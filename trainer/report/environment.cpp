#include "trainer/report/environment.h"

#include <array>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "trainer/report/timestamp.h"
#include "trainer/version/version.h"

namespace penstock::report {
namespace {

constexpr std::array<std::string_view, 22> kPrefixes{
    "OMP_",    "GOMP_", "KMP_",     "MKL_",    "DNNL_",  "ONEDNN_", "OPENBLAS_", "SLURM_",
    "PMI",     "OMPI_", "CUDA_",    "NVIDIA_", "NCCL_",  "CUDNN_",  "CUBLAS",    "PENSTOCK_",
    "MALLOC_", "LD_",   "NO_COLOR", "TERM",    "TMPDIR", "GLIBC_"};
constexpr std::array<std::string_view, 7> kSecrets{"TOKEN", "KEY", "SECRET", "PASS", "JWT", "CRED", "AUTH"};
constexpr std::array<std::string_view, 13> kProcessorFlags{
    "sse4_2",      "avx",         "f16c",     "fma",      "avx2",     "avx512f",   "avx512bw",
    "avx512_bf16", "avx512_vnni", "avx_vnni", "amx_tile", "amx_bf16", "hypervisor"};

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\"");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\"") - begin + 1);
}

// The first value of each `name<separator>value` line.
std::map<std::string, std::string> read_fields(const char* path, char separator) {
  std::map<std::string, std::string> fields;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const size_t at = line.find(separator);
    if (at != std::string::npos) fields.emplace(trimmed(line.substr(0, at)), trimmed(line.substr(at + 1)));
  }
  return fields;
}

nlohmann::ordered_json processor() {
  std::map<std::string, std::string> fields = read_fields("/proc/cpuinfo", ':');
  nlohmann::ordered_json flags = nlohmann::ordered_json::array();
  const std::string present = fmt::format(" {} ", fields["flags"]);
  for (const std::string_view flag : kProcessorFlags) {
    if (present.find(fmt::format(" {} ", flag)) != std::string::npos) flags.push_back(flag);
  }
  nlohmann::ordered_json out{{"model", fields["model name"]}, {"flags", flags}};
  out["cores"] = std::thread::hardware_concurrency();
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0) out["cores_allowed"] = CPU_COUNT(&allowed);
  return out;
}

nlohmann::ordered_json memory() {
  nlohmann::ordered_json out;
  std::map<std::string, std::string> fields = read_fields("/proc/meminfo", ':');
  for (const auto& [name, key] :
       {std::pair("total_bytes", "MemTotal"), std::pair("available_bytes", "MemAvailable")}) {
    std::istringstream text(fields[key]);
    if (int64_t kib = 0; text >> kib) out[name] = kib * 1024;
  }
  std::ifstream limit("/sys/fs/cgroup/memory.max");
  if (int64_t bytes = 0; limit >> bytes) out["limit_bytes"] = bytes;
  return out;
}

nlohmann::ordered_json system() {
  nlohmann::ordered_json out;
  out["name"] = read_fields("/etc/os-release", '=')["PRETTY_NAME"];
  utsname names{};
  if (::uname(&names) == 0) {
    out["kernel"] = std::string(names.sysname) + " " + names.release;
    out["machine"] = names.machine;
  }
  return out;
}

nlohmann::ordered_json build() {
  const BuildInfo& info = build_info();
  nlohmann::ordered_json libraries;
  for (const auto& [name, version] : info.libraries) libraries[name] = version;
  return {{"version", info.version},
          {"git", info.git_id},
          {"compiler", info.compiler},
          {"build_type", info.build_type},
          {"sanitizers", info.sanitizers},
          {"cpu_target", info.cpu_target},
          {"cuda", info.cuda},
          {"libraries", libraries}};
}

bool contains_any(std::string_view text, const auto& words) {
  for (const std::string_view word : words) {
    if (text.find(word) != std::string_view::npos) return true;
  }
  return false;
}

nlohmann::ordered_json variables() {
  std::map<std::string, std::string> sorted;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string_view entry = *each;
    const std::string_view name = entry.substr(0, entry.find('='));
    bool wanted = false;
    for (const std::string_view prefix : kPrefixes)
      wanted = wanted || name.substr(0, prefix.size()) == prefix;
    if (!wanted || contains_any(name, kSecrets) || name.size() == entry.size()) continue;
    sorted.emplace(name, entry.substr(name.size() + 1));
  }
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (const auto& [name, value] : sorted) out[name] = value;
  return out;
}

}  // namespace

nlohmann::ordered_json describe_environment(const std::vector<std::string>& command_line) {
  char host[256] = {};
  if (::gethostname(host, sizeof host - 1) != 0) std::strcpy(host, "unknown");
  char folder[4096] = {};
  const char* working = ::getcwd(folder, sizeof folder);
  return {{"schema", 1},
          {"time", timestamp()},
          {"host", host},
          {"pid", ::getpid()},
          {"command_line", command_line},
          {"working_directory", working != nullptr ? working : ""},
          {"build", build()},
          {"processor", processor()},
          {"memory", memory()},
          {"system", system()},
          {"variables", variables()}};
}

std::string environment_text(const std::vector<std::string>& command_line) {
  return describe_environment(command_line).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

}  // namespace penstock::report
