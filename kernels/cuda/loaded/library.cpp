#include "kernels/cuda/loaded/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock::cuda::loaded {

void* Library::address(const char* name) {
  // Opening twice gives the same handle. It is never closed: it keeps threads and memory of its own.
  void* const handle = dlopen(file_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    throw DeviceError(
        fmt::format("{} cannot be opened: {}; install {}, or name its folder in LD_LIBRARY_PATH", file_,
                    dlerror(), package_));
  }
  void* const found = dlsym(handle, name);
  if (found == nullptr)
    throw DeviceError(fmt::format("{} has no function {}: {}; install {} as this build knew it", file_, name,
                                  dlerror(), package_));
  return found;
}

}  // namespace penstock::cuda::loaded
