#pragma once

#include <string>

#include <mpi.h>

namespace penstock::transport {

/// "MPI_Wait: MPI_ERR_TRUNCATE: message truncated (code 15)": `call` and the library's own text for `code`.
std::string mpi_error_text(const char* call, int code);

/// DeviceError with what was being done (from `describe()`, called on failure only), the call and the
/// library's text, unless `code` is success.
[[noreturn]] void throw_mpi_error(const char* call, int code, const std::string& doing);
template <class Describe>
void check_mpi(const char* call, int code, Describe describe) {
  if (code != MPI_SUCCESS) throw_mpi_error(call, code, describe());
}

}  // namespace penstock::transport
