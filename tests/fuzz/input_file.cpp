#include "tests/fuzz/input_file.h"

#include <cstdio>
#include <cstdlib>

#include <sys/mman.h>
#include <unistd.h>

namespace penstock::fuzz {

InputFile::InputFile(const uint8_t* bytes, size_t count) : descriptor_(memfd_create("input", MFD_CLOEXEC)) {
  size_t written = 0;
  while (descriptor_ >= 0 && written < count) {
    const ssize_t now = write(descriptor_, bytes + written, count - written);
    if (now <= 0) break;
    written += static_cast<size_t>(now);
  }
  if (descriptor_ < 0 || written < count) {
    std::perror("fuzz: writing the input's file in memory");
    std::abort();
  }
  path_ = "/proc/self/fd/" + std::to_string(descriptor_);
}

InputFile::~InputFile() {
  close(descriptor_);
}

}  // namespace penstock::fuzz
