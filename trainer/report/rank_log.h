#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "trainer/report/append_file.h"

namespace penstock::report {

enum class LogLevel { debug, info, warning, error };

/// logs/rank-00000.log: what one rank did, a line "2026-11-30T00:02:27.123Z [rank 0] info: text" each. A text
/// of several lines is written as several, so that every line of all ranks' logs together still says when and
/// who. May be used from any thread. Where the log itself cannot be written, standard error says so once.
class RankLog {
 public:
  /// Creates `folder` if need be and appends to its file of this rank. Messages below `lowest` are dropped.
  RankLog(const std::string& folder, int64_t rank, LogLevel lowest = LogLevel::info);

  void write(LogLevel level, std::string_view text);
  void debug(std::string_view text) { write(LogLevel::debug, text); }
  void info(std::string_view text) { write(LogLevel::info, text); }
  void warning(std::string_view text) { write(LogLevel::warning, text); }
  void error(std::string_view text) { write(LogLevel::error, text); }

  const std::string& path() const { return file_.path(); }

 private:
  int64_t rank_;
  LogLevel lowest_;
  std::mutex mutex_;
  AppendFile file_;
};

}  // namespace penstock::report
