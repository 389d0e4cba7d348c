#include "trainer/report/timestamp.h"

#include <ctime>

#include <fmt/format.h>

namespace penstock::report {

std::string timestamp(std::chrono::system_clock::time_point at) {
  const auto second = std::chrono::floor<std::chrono::seconds>(at);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(at - second).count();
  const std::time_t time = std::chrono::system_clock::to_time_t(second);
  std::tm utc{};
  ::gmtime_r(&time, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, ms);
}

std::optional<std::chrono::system_clock::time_point> parse_timestamp(const std::string& text) {
  std::tm utc{};
  const char* rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &utc);
  if (rest == nullptr) return std::nullopt;
  std::chrono::milliseconds fraction(0);
  if (*rest == '.') {
    int unit = 100;
    for (++rest; *rest >= '0' && *rest <= '9'; ++rest, unit /= 10)
      fraction += std::chrono::milliseconds(unit * (*rest - '0'));
  }
  if (rest[0] != 'Z' || rest[1] != '\0') return std::nullopt;
  return std::chrono::system_clock::from_time_t(::timegm(&utc)) + fraction;
}

}  // namespace penstock::report
