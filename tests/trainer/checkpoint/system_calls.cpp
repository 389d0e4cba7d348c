#include "tests/trainer/checkpoint/system_calls.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <utility>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace penstock::checkpoint {
namespace {

CallHook& current_hook() {
  static CallHook hook;
  return hook;
}

std::string path_of(int fd) {
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = readlink(link.c_str(), path.data(), path.size());
  return length > 0 ? std::string(path.data(), static_cast<size_t>(length)) : "";
}

// Whether the call goes ahead; where not, errno says why.
Interference ask(const char* call, const std::string& path) {
  if (!current_hook()) return {};
  Interference answer = current_hook()(call, path);
  if (answer.kind == Interference::Kind::kill) ::kill(getpid(), SIGKILL);
  return answer;
}

bool refused(const Interference& answer) {
  if (answer.kind == Interference::Kind::fail) errno = answer.error;
  return answer.kind == Interference::Kind::fail;
}

}  // namespace

CallWatch::CallWatch(CallHook hook) {
  current_hook() = std::move(hook);
}
CallWatch::~CallWatch() {
  current_hook() = nullptr;
}

}  // namespace penstock::checkpoint

using penstock::checkpoint::ask;
using penstock::checkpoint::Interference;
using penstock::checkpoint::path_of;
using penstock::checkpoint::refused;

extern "C" {

ssize_t write(int fd, const void* bytes, size_t size) {
  const Interference answer = ask("write", path_of(fd));
  if (refused(answer)) return -1;
  if (answer.kind == Interference::Kind::short_write && size > 1) size = 1;
  return syscall(SYS_write, fd, bytes, size);
}

// The disk is not waited for: no test cuts the power.
int fsync(int fd) {
  return refused(ask("fsync", path_of(fd))) ? -1 : 0;
}

int ftruncate(int fd, off_t size) noexcept {
  return refused(ask("ftruncate", path_of(fd))) ? -1 : static_cast<int>(syscall(SYS_ftruncate, fd, size));
}

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  if ((flags & O_CREAT) != 0 && refused(ask("open", path))) return -1;
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

int rename(const char* from, const char* to) noexcept {
  return refused(ask("rename", to))
             ? -1
             : static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  return refused(ask("renameat2", to))
             ? -1
             : static_cast<int>(syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}

int mkdir(const char* path, mode_t mode) noexcept {
  return refused(ask("mkdir", path)) ? -1 : static_cast<int>(syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

int unlink(const char* path) noexcept {
  return refused(ask("unlink", path)) ? -1 : static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}

int rmdir(const char* path) noexcept {
  return refused(ask("rmdir", path)) ? -1
                                     : static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}

}  // extern "C"
