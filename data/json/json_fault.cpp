#include "data/json/json_fault.h"

#include <algorithm>

namespace penstock::data {
namespace {

// Cuts everything up to and with `mark`, where there is one.
void cut_through(std::string& text, std::string_view mark) {
  const size_t at = text.find(mark);
  if (at != std::string::npos) text.erase(0, at + mark.size());
}

// All that was read of a string is repeated, which may be megabytes: its end says where it is.
void shorten(std::string& reason) {
  constexpr std::string_view mark = "last read: '";
  constexpr size_t most = 80;
  const size_t at = reason.find(mark);
  if (at == std::string::npos || reason.size() - at - mark.size() <= most) return;
  const size_t begin = at + mark.size();
  size_t end = reason.size() - most;
  while (end < reason.size() && (static_cast<unsigned char>(reason[end]) & 0xC0U) == 0x80U) ++end;
  reason.replace(begin, end - begin, "...");
}

// A number that no double holds is complained of without a place, but literally.
size_t place_of_number(std::string_view text, const std::string& reason) {
  const size_t open = reason.find('\'');
  const size_t close = reason.rfind('\'');
  if (open == std::string::npos || close <= open) return 0;
  const size_t at = text.find(std::string_view(reason).substr(open + 1, close - open - 1));
  return at == std::string_view::npos ? 0 : at;
}

}  // namespace

std::string json_reason(const nlohmann::json::exception& error) {
  std::string reason = error.what();
  if (reason.rfind("[json.exception.", 0) == 0) cut_through(reason, "] ");
  if (reason.rfind("parse error", 0) == 0) cut_through(reason, ": ");
  if (reason.rfind("syntax error while parsing ", 0) == 0) cut_through(reason, " - ");
  shorten(reason);
  return reason;
}

JsonFault json_fault(std::string_view text, const nlohmann::json::exception& error) {
  JsonFault fault;
  fault.what = json_reason(error);
  const auto* parse_error = dynamic_cast<const nlohmann::json::parse_error*>(&error);
  fault.byte = parse_error == nullptr ? place_of_number(text, fault.what)
                                      : parse_error->byte - std::min<size_t>(1, parse_error->byte);
  const std::string_view before = text.substr(0, fault.byte);
  fault.line = 1 + static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
  fault.column =
      1 + before.size() - (before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1);
  return fault;
}

}  // namespace penstock::data
