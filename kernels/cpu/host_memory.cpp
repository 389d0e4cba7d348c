#include "kernels/cpu/host_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/device/error.h"

namespace penstock::cpu {
namespace {

constexpr size_t large_page_bytes = size_t{2} << 20;

/// The number after `key` in a file of lines "key number".
std::optional<uint64_t> number_after(const std::filesystem::path& path, std::string_view key) {
  std::ifstream file(path);
  std::string word;
  uint64_t number = 0;
  while (file >> word) {
    if (word == key && file >> number) return number;
  }
  return std::nullopt;
}

/// The number a file consists of; nothing if it is absent or says "max".
std::optional<uint64_t> number_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

/// What a control group leaves: its limit less what it uses and could not give up at once.
std::optional<uint64_t> group_leaves(const std::filesystem::path& group) {
  const std::optional<uint64_t> limit = number_in(group / "memory.max");
  const std::optional<uint64_t> used = number_in(group / "memory.current");
  if (!limit || !used) return std::nullopt;
  const uint64_t reclaimable =
      std::min(*used, number_after(group / "memory.stat", "inactive_file").value_or(0));
  const uint64_t held = *used - reclaimable;
  return *limit > held ? *limit - held : 0;
}

/// The process's group as a path below /sys/fs/cgroup; empty without control groups of version 2.
std::string group_path() {
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("0::/")) return line.substr(4);
  }
  return {};
}

void* map(const std::string& purpose, size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw DeviceError(fmt::format(
        "cannot map {} bytes for {}: {}; check ulimit -v and vm.overcommit_memory, or use more ranks", bytes,
        purpose, std::strerror(errno)));
  }
  return memory;
}

}  // namespace

AvailableMemory available_memory() {
  const std::optional<uint64_t> kibibytes = number_after("/proc/meminfo", "MemAvailable:");
  if (!kibibytes) throw DeviceError("cannot read MemAvailable from /proc/meminfo; is /proc mounted?");
  AvailableMemory available{*kibibytes * 1024, "MemAvailable of /proc/meminfo"};

  const std::filesystem::path root = "/sys/fs/cgroup";
  for (std::filesystem::path group = root / group_path(); group.string().size() >= root.string().size();
       group = group.parent_path()) {
    const std::optional<uint64_t> left = group_leaves(group);
    if (left && *left < available.bytes)
      available = {*left, fmt::format("memory.max of control group {}", group.string())};
  }
  return available;
}

void* reserve_memory(const std::string& purpose, size_t bytes) {
  if (bytes == 0) return nullptr;
  const AvailableMemory available = available_memory();
  if (bytes > available.bytes) {
    throw DeviceError(fmt::format(
        "{} needs {} bytes, but only {} are available ({}); use more ranks, a smaller micro-batch or "
        "recomputation",
        purpose, bytes, available.bytes, available.source));
  }
  if (bytes < large_page_bytes) {
    void* memory = map(purpose, bytes);
    std::memset(memory, 0, bytes);
    return memory;
  }

  // Large pages need aligned addresses: map one page more and give the ends back.
  const size_t mapped = (bytes + 4095) / 4096 * 4096 + large_page_bytes;
  char* begin = static_cast<char*>(map(purpose, mapped));
  const size_t head =
      (large_page_bytes - reinterpret_cast<uintptr_t>(begin) % large_page_bytes) % large_page_bytes;
  const size_t tail = large_page_bytes - head;
  char* memory = begin + head;
  if (head > 0) release_memory(begin, head);
  if (tail > 0) release_memory(begin + mapped - tail, tail);
  // A kernel without large pages refuses; the memory is as good, only slower.
  static_cast<void>(madvise(memory, bytes, MADV_HUGEPAGE));
  std::memset(memory, 0, bytes);
  return memory;
}

void release_memory(void* memory, size_t bytes) {
  if (bytes == 0) return;
  if (munmap(memory, bytes) != 0) {
    // Only a wrong address or size can do this: the accounts are broken, and going on would corrupt memory.
    std::fputs(fmt::format("penstock: cannot unmap {} bytes at {}: {}\n", bytes, memory, std::strerror(errno))
                   .c_str(),
               stderr);
    std::abort();
  }
}

}  // namespace penstock::cpu
