#include "data/byte_source.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/data_error.h"

namespace penstock::data {

ByteSource::ByteSource(std::string path) : path_(std::move(path)) {
  if (path_ == "-") {
    path_ = "standard input";
    fd_ = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
  } else {
    do {
      fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    } while (fd_ < 0 && errno == EINTR);
  }
  if (fd_ < 0) throw system_error(path_, "open it for reading", errno);
  struct stat status = {};
  if (::fstat(fd_, &status) != 0) {
    const int error = errno;
    ::close(fd_);
    throw system_error(path_, "ask for its size", error);
  }
  if (S_ISDIR(status.st_mode)) {
    ::close(fd_);
    throw DataError(
        Fault{path_, {}, "a folder", "a file", "name the files in it, for example with " + path_ + "/*"});
  }
  if (S_ISREG(status.st_mode)) size_ = static_cast<uint64_t>(status.st_size);
}

ByteSource::~ByteSource() {
  ::close(fd_);
}

size_t ByteSource::read(char* into, size_t size) {
  for (;;) {
    const ssize_t count = ::read(fd_, into, size);
    if (count >= 0) {
      offset_ += static_cast<uint64_t>(count);
      return static_cast<size_t>(count);
    }
    if (errno != EINTR) throw system_error(path_, "read", errno, offset_);
  }
}

void ByteSource::seek(uint64_t offset) {
  if (::lseek(fd_, static_cast<off_t>(offset), SEEK_SET) < 0)
    throw system_error(path_, "seek", errno, offset);
  offset_ = offset;
}

}  // namespace penstock::data
