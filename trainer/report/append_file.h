#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "data/data_error.h"

namespace penstock::report {

/// A report file cannot be opened. Later failures to write do not throw: they go to a MessageSink.
class ReportError : public data::WriteError {
 public:
  explicit ReportError(const std::string& text) : data::WriteError(text) {}
};

/// Where a report says that it cannot be written.
using MessageSink = std::function<void(const std::string&)>;

/// A file that grows by whole records, one write(2) each, so that a reader never sees two records mixed and a
/// killed process leaves at most its last one incomplete. A full disk must not end the training whose report
/// it is: a record that cannot be written is taken back (the file ends with the last whole one), the first of
/// a series of failures and the end of the series are told to the sink, and every later record is tried
/// again.
class AppendFile {
 public:
  /// What to do with an incomplete last line of an earlier process: text files only.
  enum class Tail { keep, cut_partial_line };

  /// Opens or creates. ReportError naming the path and errno's text.
  AppendFile(std::string path, Tail tail, MessageSink sink);
  /// Creates; a file that exists already is refused (EEXIST is reported as `false` by created()).
  static bool create_new(const std::string& path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  /// Appends one record; false if it could not be written. Allocates nothing unless it fails.
  bool append(std::string_view record);

  const std::string& path() const { return path_; }

 private:
  void cut_partial_line();
  void failed(int error);

  std::string path_;
  MessageSink sink_;
  int fd_ = -1;
  int64_t lost_ = 0;  ///< records since the last one that was written
};

}  // namespace penstock::report
