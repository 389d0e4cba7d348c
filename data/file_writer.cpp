#include "data/file_writer.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/data_error.h"

namespace penstock::data {
namespace {

constexpr size_t buffer_bytes = size_t{1} << 20;
// Linux writes at most 0x7ffff000 bytes a call; smaller pieces give exact offsets in errors.
constexpr size_t call_bytes = size_t{64} << 20;

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// SIGXFSZ kills by default: ignored once, `ulimit -f` becomes EFBIG, an error like a full disk.
void make_file_size_limit_an_error() {
  static const bool done = [] {
    std::signal(SIGXFSZ, SIG_IGN);
    return true;
  }();
  static_cast<void>(done);
}

int fsync_retrying(int fd) {
  int result = -1;
  do {
    result = ::fsync(fd);
  } while (result != 0 && errno == EINTR);
  return result;
}

}  // namespace

FileWriter::FileWriter(std::string path) : path_(std::move(path)), partial_(path_ + ".partial") {
  check_name();
  open_locked();
  if (::ftruncate(fd_, 0) != 0) {
    const int error = errno;
    discard();
    throw write_error(partial_, "empty it", error);
  }
  buffer_.reserve(buffer_bytes);
}

FileWriter::FileWriter(std::string path, uint64_t bytes)
    : path_(std::move(path)), partial_(path_ + ".partial"), kept_(true), flushed_(bytes) {
  check_name();
  open_locked();
  struct stat status = {};
  const auto place = static_cast<off_t>(bytes);
  if (::fstat(fd_, &status) != 0 || status.st_size < place) {
    discard();
    throw DataError(Fault{partial_,
                          {},
                          fmt::format("{} bytes", status.st_size),
                          fmt::format("at least {}, which were written before", bytes),
                          "begin again"});
  }
  if (::ftruncate(fd_, place) != 0 || ::lseek(fd_, place, SEEK_SET) < 0) {
    const int error = errno;
    discard();
    throw write_error(partial_, "cut it to what was complete", error, bytes);
  }
  buffer_.reserve(buffer_bytes);
}

void FileWriter::check_name() const {
  make_file_size_limit_an_error();
  struct stat status = {};
  if (::stat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    throw WriteError(Fault{path_,
                           {},
                           S_ISDIR(status.st_mode) ? "a folder" : "a pipe or device",
                           "a file or nothing under this name",
                           "choose another name"});
  }
}

void FileWriter::open_locked() {
  for (;;) {
    do {
      fd_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    } while (fd_ < 0 && errno == EINTR);
    if (fd_ < 0) throw write_error(partial_, "create it", errno);
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      ::close(std::exchange(fd_, -1));
      throw WriteError(Fault{partial_,
                             {},
                             "a lock of another process that is writing it",
                             "one writer",
                             "wait for that process or stop it"});
    }
    // Its previous owner may have renamed it between our open and our lock: then it is the finished file now.
    struct stat mine = {};
    struct stat named = {};
    if (::fstat(fd_, &mine) == 0 && ::stat(partial_.c_str(), &named) == 0 && mine.st_ino == named.st_ino &&
        mine.st_dev == named.st_dev) {
      break;
    }
    ::close(std::exchange(fd_, -1));
  }
}

FileWriter::~FileWriter() {
  discard();
}

void FileWriter::discard() noexcept {
  if (fd_ < 0) return;
  if (!kept_) ::unlink(partial_.c_str());
  ::close(std::exchange(fd_, -1));
}

void FileWriter::write(const void* bytes, size_t size) {
  const auto* from = static_cast<const std::byte*>(bytes);
  if (fd_ < 0) throw std::logic_error(path_ + ": written to after commit()");
  if (buffer_.size() + size > buffer_bytes) flush();
  if (size >= buffer_bytes) {
    write_fully(from, size);
  } else {
    buffer_.insert(buffer_.end(), from, from + size);
  }
}

void FileWriter::flush() {
  write_fully(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void FileWriter::write_fully(const std::byte* bytes, size_t size) {
  while (size > 0) {
    const ssize_t written = ::write(fd_, bytes, std::min(size, call_bytes));
    if (written < 0) {
      if (errno == EINTR) continue;
      throw write_error(partial_, "write", errno, flushed_);
    }
    flushed_ += static_cast<uint64_t>(written);
    bytes += written;
    size -= static_cast<size_t>(written);
  }
}

void FileWriter::sync() {
  flush();
  if (fsync_retrying(fd_) != 0) throw write_error(partial_, "bring it to disk (fsync)", errno, flushed_);
}

void FileWriter::commit() {
  sync();
  rename_and_close();
  sync_folder(folder_of(path_));
}

void FileWriter::replace() {
  flush();
  rename_and_close();
}

void FileWriter::rename_and_close() {
  if (::rename(partial_.c_str(), path_.c_str()) != 0) {
    throw write_error(partial_, "rename it to " + path_, errno);
  }
  const int closed = ::close(std::exchange(fd_, -1));  // only now: the lock must cover the rename
  if (closed != 0 && errno != EINTR) throw write_error(path_, "close it", errno);
}

void write_file(const std::string& path, std::string_view text) {
  FileWriter writer(path);
  writer.write(text);
  writer.commit();
}

void replace_file(const std::string& path, std::string_view text) {
  FileWriter writer(path);
  writer.write(text);
  writer.replace();
}

void sync_folder(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw write_error(folder, "open the folder", errno);
  const int result = fsync_retrying(fd);
  const int error = errno;
  ::close(fd);
  // Some file systems (FUSE, some network ones) cannot sync a folder and say so; there is nothing better to
  // do.
  if (result != 0 && error != EINVAL && error != ENOTSUP) {
    throw write_error(folder, "bring the folder to disk (fsync)", error);
  }
}

void rename_durably(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) throw write_error(from, "rename it to " + to, errno);
  sync_folder(folder_of(to));
}

}  // namespace penstock::data
