#include "trainer/run_view/line_tail.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/data_error.h"

namespace penstock::run_view {
namespace {

constexpr size_t kPiece = 1 << 20;

struct Descriptor {
  explicit Descriptor(int number) : fd(number) {}
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int fd;
};

[[noreturn]] void refuse(const std::string& path, const char* what, int error) {
  throw data::DataError(fmt::format("{}: cannot {} it: {}; check that it is a file that you may read", path,
                                    what, std::strerror(error)));
}

}  // namespace

LineTail::LineTail(std::string path, int64_t most) : path_(std::move(path)), most_(most) {}

LineTail::Seen LineTail::read(const std::function<void(std::string_view)>& visit,
                              const std::function<void()>& restart) {
  const Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ESTALE)) return Seen::missing;
  if (file.fd < 0) refuse(path_, "open", errno);
  struct stat about = {};
  if (::fstat(file.fd, &about) != 0) refuse(path_, "look at", errno);
  const bool other = begun_ && (about.st_ino != inode_ || about.st_dev != device_ || about.st_size < offset_);
  bool cut = false;
  if (!begun_ || other) {
    begun_ = true;
    offset_ = skipped_ = 0;
    inode_ = about.st_ino;
    device_ = about.st_dev;
    if (most_ > 0 && about.st_size > most_) {
      offset_ = about.st_size - most_ - 1;  // the byte before may end a line: then the next is whole
      cut = true;
    }
    if (other && restart) restart();
  }
  Seen seen = other ? Seen::restarted : Seen::nothing;
  std::string text;
  while (true) {
    const size_t kept = text.size();
    text.resize(kept + kPiece);
    const ssize_t got = ::pread(file.fd, text.data() + kept, kPiece, offset_ + static_cast<off_t>(kept));
    if (got < 0 && errno == EINTR) {
      text.resize(kept);
      continue;
    }
    if (got < 0) refuse(path_, "read", errno);
    text.resize(kept + static_cast<size_t>(got));
    if (got == 0) return seen;
    size_t begin = 0;
    for (size_t end = text.find('\n', kept); end != std::string::npos; end = text.find('\n', begin)) {
      if (cut) {
        cut = false;
        skipped_ = offset_ + static_cast<int64_t>(end + 1);
      } else {
        visit(std::string_view(text).substr(begin, end - begin));
        if (seen == Seen::nothing) seen = Seen::lines;
      }
      begin = end + 1;
    }
    offset_ += static_cast<int64_t>(begin);
    text.erase(0, begin);
  }
}

}  // namespace penstock::run_view
