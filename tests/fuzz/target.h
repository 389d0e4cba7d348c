// A fuzz target reads its input as users' files are read. It may refuse it, by the reader's own exception;
// whatever else is thrown, a sanitizer's report, too much memory or too long a time is a fault. What it reads
// must come back the same when it is written and read again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count);

namespace penstock::fuzz {

inline std::string text_of(const uint8_t* bytes, size_t count) {
  return {reinterpret_cast<const char*>(bytes), count};
}

/// Ends the process where `kept` is false.
inline void require(bool kept, const char* what) {
  if (kept) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

}  // namespace penstock::fuzz
