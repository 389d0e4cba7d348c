#include "trainer/report/rank_log.h"

#include <cstdio>
#include <filesystem>

#include <fmt/format.h>

#include "trainer/report/timestamp.h"

namespace penstock::report {
namespace {

const char* name_of(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "debug";
    case LogLevel::info:
      return "info";
    case LogLevel::warning:
      return "warning";
    case LogLevel::error:
      return "error";
  }
  return "?";
}

std::string path_in(const std::string& folder, int64_t rank) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw ReportError(fmt::format("{}: cannot create the folder: {}", folder, error.message()));
  return fmt::format("{}/rank-{:05}.log", folder, rank);
}

}  // namespace

RankLog::RankLog(const std::string& folder, int64_t rank, LogLevel lowest)
    : rank_(rank),
      lowest_(lowest),
      file_(path_in(folder, rank), AppendFile::Tail::cut_partial_line,
            [](const std::string& message) { std::fprintf(stderr, "penstock: %s\n", message.c_str()); }) {}

void RankLog::write(LogLevel level, std::string_view text) {
  if (level < lowest_) return;
  const std::string head = fmt::format("{} [rank {}] {}: ", timestamp(), rank_, name_of(level));
  std::string lines;
  do {
    const size_t end = text.find('\n');
    lines += head;
    lines += text.substr(0, end);
    lines += '\n';
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  } while (!text.empty());
  const std::lock_guard lock(mutex_);
  file_.append(lines);
}

}  // namespace penstock::report
