#include "data/mapped_file.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/data_error.h"

namespace penstock::data {

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {
  // Without O_NONBLOCK the opening of a pipe nobody writes to would wait for ever; it changes nothing for
  // files.
  int fd = -1;
  do {
    fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) throw system_error(path_, "open it for reading", errno);
  struct stat status = {};
  if (::fstat(fd, &status) != 0) {
    const int error = errno;
    ::close(fd);
    throw system_error(path_, "ask for its size", error);
  }
  if (!S_ISREG(status.st_mode)) {
    ::close(fd);
    throw DataError(Fault{path_,
                          {},
                          S_ISDIR(status.st_mode) ? "a folder" : "a pipe or device",
                          "a regular file (it is memory-mapped)",
                          "give the path of a file"});
  }
  size_ = static_cast<uint64_t>(status.st_size);
  if (size_ > 0) {
    void* address = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
    if (address == MAP_FAILED) {
      const int error = errno;
      ::close(fd);
      throw system_error(path_, "map it into memory", error);
    }
    data_ = static_cast<const std::byte*>(address);
  }
  ::close(fd);  // only read from: nothing can be lost here
}

void MappedFile::unmap() noexcept {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
  data_ = nullptr;
  size_ = 0;
}

MappedFile::~MappedFile() {
  unmap();
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    unmap();
    path_ = std::move(other.path_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

}  // namespace penstock::data
