#pragma once

#include <string>

namespace penstock::cpu {

/// "AMD EPYC 9654 96-Core Processor", as the kernel reports it; "unknown processor" where it does not.
std::string processor_name();

/// Whether matmuls of bf16 run in hardware (avx512_bf16 or amx_bf16).
bool processor_has_bf16();

}  // namespace penstock::cpu
