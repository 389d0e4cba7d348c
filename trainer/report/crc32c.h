#pragma once

#include <cstdint>
#include <string_view>

namespace penstock::report {

/// CRC-32C (Castagnoli, reflected polynomial 82F63B78).
uint32_t crc32c(std::string_view bytes);

/// As TensorFlow's record files store it: rotated right by 15, plus A282EAD8.
uint32_t masked_crc32c(std::string_view bytes);

}  // namespace penstock::report
