#include "kernels/device/host_name.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <unistd.h>

#include "kernels/device/error.h"

namespace penstock {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0)
    throw DeviceError(fmt::format("asking for the name of this host: {}", std::strerror(errno)));
  return name.data();
}

}  // namespace penstock
