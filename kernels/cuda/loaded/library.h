#pragma once

#include <string>
#include <utility>

/// Libraries that are opened when they are first called. cuBLASLt alone takes 0.17 s to load, which commands
/// that compute nothing would pay too.
namespace penstock::cuda::loaded {

class Library {
 public:
  /// `file`: "libcublasLt.so.13". `package`: what to install where it is absent. Opens nothing yet.
  Library(std::string file, std::string package) : file_(std::move(file)), package_(std::move(package)) {}

  /// DeviceError, with what to do, if the library cannot be opened or has no such function.
  template <class Function>
  Function* function(const char* name) {
    return reinterpret_cast<Function*>(address(name));
  }

 private:
  void* address(const char* name);

  std::string file_;
  std::string package_;
};

}  // namespace penstock::cuda::loaded
