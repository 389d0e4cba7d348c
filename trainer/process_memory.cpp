#include "trainer/process_memory.h"

#include <cerrno>
#include <fstream>
#include <string>
#include <system_error>

namespace penstock {

ProcessMemory process_memory() {
  std::ifstream status("/proc/self/status");
  if (!status) throw std::system_error(errno, std::generic_category(), "reading /proc/self/status");
  ProcessMemory memory;
  std::string word;
  size_t kibibytes = 0;
  while (status >> word) {
    if (word == "VmHWM:" && status >> kibibytes) memory.peak = kibibytes * 1024;
    if (word == "VmRSS:" && status >> kibibytes) memory.resident = kibibytes * 1024;
  }
  return memory;
}

}  // namespace penstock
