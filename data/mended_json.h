#pragma once

#include <string>
#include <string_view>

namespace penstock::data {

/// JSON in which `replacement` stands for what is not Unicode: an escape that is half of a surrogate pair
/// (`"\ud800"`), and each run of bytes that are not UTF-8. Equal to `json` where there is neither.
std::string mended_json(std::string_view json, char32_t replacement = 0xFFFD);

}  // namespace penstock::data
