#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace penstock::data {

/// Where and why a text is no JSON, for people: what the library's exception says without the library's own
/// names and numbers. `text` is what was parsed.
struct JsonFault {
  size_t byte = 0;  ///< from 0; lines and columns from 1
  size_t line = 1;
  size_t column = 1;
  std::string what;  ///< "unexpected end of input; expected '[', '{', or a literal"
};
JsonFault json_fault(std::string_view text, const nlohmann::json::exception& error);

/// Of a value that is JSON but not what was asked for: the reason alone.
std::string json_reason(const nlohmann::json::exception& error);

}  // namespace penstock::data
