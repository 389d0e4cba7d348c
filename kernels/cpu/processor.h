#pragma once

#include <string>
#include <vector>

namespace penstock::cpu {

/// "AMD EPYC 9654 96-Core Processor", as the kernel reports it; "unknown processor" where it does not.
std::string processor_name();

/// Numbers of the processors that the calling thread may run on, ascending; at least one. DeviceError if the
/// kernel does not say.
std::vector<int> allowed_processors();

/// Whether matmuls of bf16 run in hardware (avx512_bf16 or amx_bf16).
bool processor_has_bf16();

}  // namespace penstock::cpu
