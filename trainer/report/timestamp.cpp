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

}  // namespace penstock::report
