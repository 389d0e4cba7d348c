#pragma once

#include <functional>
#include <string>

namespace penstock::checkpoint {

/// This test binary defines the C library's write-class functions (open to create, write, fsync, ftruncate,
/// rename, renameat2, mkdir, unlink, rmdir) itself, so that every such call of the code under test passes
/// through here: the program has no seam for it.
struct Interference {
  enum class Kind { none, fail, short_write, kill };
  Kind kind = Kind::none;
  int error = 0;  ///< for fail
};

/// Asked before each call with the function's name and the path it is about (that of the descriptor for write
/// and fsync). Inactive when empty.
using CallHook = std::function<Interference(const std::string& call, const std::string& path)>;

/// Sets the hook while it lives.
class CallWatch {
 public:
  explicit CallWatch(CallHook hook);
  ~CallWatch();
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;
};

}  // namespace penstock::checkpoint
