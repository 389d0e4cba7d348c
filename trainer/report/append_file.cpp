#include "trainer/report/append_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::report {

AppendFile::AppendFile(std::string path, Tail tail, MessageSink sink)
    : path_(std::move(path)), sink_(std::move(sink)) {
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd_ < 0)
    throw ReportError(fmt::format("{}: cannot open for appending: {}", path_, std::strerror(errno)));
  if (tail == Tail::cut_partial_line) cut_partial_line();
}

AppendFile::~AppendFile() {
  if (fd_ >= 0) ::close(fd_);
}

bool AppendFile::create_new(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd >= 0) return ::close(fd) == 0;
  if (errno == EEXIST) return false;
  throw ReportError(fmt::format("{}: cannot create: {}", path, std::strerror(errno)));
}

void AppendFile::cut_partial_line() {
  struct stat status {};
  if (::fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) return;
  char block[4096];
  int64_t end = status.st_size;
  while (end > 0) {
    const int64_t begin = std::max<int64_t>(0, end - static_cast<int64_t>(sizeof block));
    const ssize_t bytes = ::pread(fd_, block, static_cast<size_t>(end - begin), begin);
    if (bytes != end - begin) {
      throw ReportError(fmt::format("{}: cannot read at byte {}: {}", path_, begin, std::strerror(errno)));
    }
    while (end > begin && block[end - begin - 1] != '\n') --end;
    if (end > begin) break;
  }
  if (end < status.st_size && ::ftruncate(fd_, end) != 0) {
    throw ReportError(fmt::format("{}: cannot cut off an incomplete last line at byte {}: {}", path_, end,
                                  std::strerror(errno)));
  }
}

bool AppendFile::append(std::string_view record) {
  struct stat before {};
  const bool regular = ::fstat(fd_, &before) == 0 && S_ISREG(before.st_mode);
  size_t done = 0;
  while (done < record.size()) {
    const ssize_t bytes = ::write(fd_, record.data() + done, record.size() - done);
    if (bytes > 0) {
      done += static_cast<size_t>(bytes);
    } else if (bytes < 0 && errno == EINTR) {
      continue;
    } else {
      const int error = bytes < 0 ? errno : EIO;
      // Half a record would spoil the next one too.
      if (done > 0 && regular && ::ftruncate(fd_, before.st_size) != 0 && sink_) {
        sink_(fmt::format("{}: byte {}: cannot take back an incomplete record: {}", path_, before.st_size,
                          std::strerror(errno)));
      }
      failed(error);
      return false;
    }
  }
  if (lost_ > 0) {
    if (sink_)
      sink_(fmt::format("{}: writing again; {} record{} lost", path_, lost_, lost_ == 1 ? " is" : "s are"));
    lost_ = 0;
  }
  return true;
}

void AppendFile::failed(int error) {
  if (lost_++ == 0 && sink_) {
    sink_(fmt::format("{}: cannot append: {}; the run goes on, records are lost until this is mended", path_,
                      std::strerror(error)));
  }
}

}  // namespace penstock::report
