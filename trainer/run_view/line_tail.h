#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace penstock::run_view {

/// Reads a text file that another process writes, line by line, each line once. A last line without its line
/// end is left for the next time: it is being written, or its writer was killed, and the next start of the
/// run cuts it off. Nothing is kept open between two reads, so that a file on a network may come and go.
class LineTail {
 public:
  /// `most`: of a file that is longer at the first read only about its last `most` bytes are read. 0: all.
  explicit LineTail(std::string path, int64_t most = 0);

  enum class Seen {
    missing,    ///< no such file yet
    nothing,    ///< nothing new
    lines,      ///< `visit` got some
    restarted,  ///< the file is another one, or shorter than what was read: `visit` gets all of it again
  };
  /// Calls `restart` before the first line where the file is another one, then `visit` with every whole new
  /// line without its line end. data::DataError naming the file where it is there but cannot be read.
  Seen read(const std::function<void(std::string_view)>& visit, const std::function<void()>& restart = {});

  const std::string& path() const { return path_; }
  /// Bytes at the beginning that were left out.
  int64_t skipped() const { return skipped_; }

 private:
  std::string path_;
  int64_t most_;
  int64_t offset_ = 0;  ///< behind the last line that was visited
  int64_t skipped_ = 0;
  bool begun_ = false;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace penstock::run_view
