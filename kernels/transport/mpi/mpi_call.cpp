#include "kernels/transport/mpi/mpi_call.h"

#include <array>

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock::transport {

std::string mpi_error_text(const char* call, int code) {
  std::array<char, MPI_MAX_ERROR_STRING + 1> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) length = 0;
  return fmt::format("{}: {} (code {})", call,
                     length > 0 ? std::string(text.data(), static_cast<size_t>(length)) : "unknown error",
                     code);
}

void throw_mpi_error(const char* call, int code, const std::string& doing) {
  throw DeviceError(fmt::format("{}: {}", doing, mpi_error_text(call, code)));
}

}  // namespace penstock::transport
