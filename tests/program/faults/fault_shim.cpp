// A library that a test preloads into the program: it counts the write-class calls that are about some path,
// and does something to one of them, as a failing disk or a killed machine would.
//
//   PENSTOCK_FAULT_PATH   calls whose path contains this are counted; without it nothing happens
//   PENSTOCK_FAULT_RANK   only in the process with this OMPI_COMM_WORLD_RANK
//   PENSTOCK_FAULT_AT     the call, from 1; 0: none
//   PENSTOCK_FAULT_KIND   kill, stop (USR1), interrupt (INT), leave (TERM, and once more 1.2 s later), short
//   (writes take one
//                         byte a call), or an error: ENOSPC, EIO; with a + from that call on, always
//   PENSTOCK_FAULT_LOG    a line is appended for every counted call: its number, name and path
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

enum class Answer { go, fail, shorten };

const char* setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

struct Plan {
  std::string path = setting("PENSTOCK_FAULT_PATH");
  std::string kind = setting("PENSTOCK_FAULT_KIND");
  long at = std::atol(setting("PENSTOCK_FAULT_AT"));
  bool always = !kind.empty() && kind.back() == '+';
  int log = -1;
  std::atomic<long> calls{0};

  Plan() {
    if (always) kind.pop_back();
    const std::string rank = setting("PENSTOCK_FAULT_RANK");
    if (!rank.empty() && rank != setting("OMPI_COMM_WORLD_RANK")) path.clear();
    const char* file = setting("PENSTOCK_FAULT_LOG");
    if (!path.empty() && *file != 0) {
      log = static_cast<int>(
          syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    }
  }
};

Plan& plan() {
  static Plan* const made = new Plan;  // calls come until the very end
  return *made;
}

std::string path_of(int fd) {
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = readlink(link.c_str(), path.data(), path.size());
  return length > 0 ? std::string(path.data(), static_cast<size_t>(length)) : "";
}

Answer ask(const char* call, const std::string& path) {
  Plan& the = plan();
  if (the.path.empty() || path.find(the.path) == std::string::npos) return Answer::go;
  const long number = ++the.calls;
  if (the.log >= 0) {
    const std::string line = std::to_string(number) + " " + call + " " + path + "\n";
    static_cast<void>(syscall(SYS_write, the.log, line.data(), line.size()));
  }
  if (the.at == 0 || number < the.at || (number > the.at && !the.always)) return Answer::go;
  if (the.kind == "short") return Answer::shorten;
  if (the.kind == "kill") {
    ::kill(getpid(), SIGKILL);
    for (;;) pause();
  }
  if (the.kind == "stop" || the.kind == "interrupt") {
    ::kill(getpid(), the.kind == "stop" ? SIGUSR1 : SIGINT);
    return Answer::go;
  }
  if (the.kind == "leave") {
    ::kill(getpid(), SIGTERM);
    usleep(1'200'000);
    ::kill(getpid(), SIGTERM);
    for (;;) pause();
  }
  errno = the.kind == "EIO" ? EIO : ENOSPC;
  return Answer::fail;
}

bool refused(const char* call, const std::string& path) {
  return ask(call, path) == Answer::fail;
}

int open_file(int folder, const char* path, int flags, mode_t mode) {
  if ((flags & O_CREAT) != 0 && refused("open", path)) return -1;
  return static_cast<int>(syscall(SYS_openat, folder, path, flags, mode));
}

mode_t mode_of(int flags, va_list more) {
  return (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* bytes, size_t size) {
  if (plan().path.empty()) return syscall(SYS_write, fd, bytes, size);
  const Answer answer = ask("write", path_of(fd));
  if (answer == Answer::fail) return -1;
  return syscall(SYS_write, fd, bytes, answer == Answer::shorten && size > 1 ? 1 : size);
}

ssize_t pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  if (refused("pwrite", path_of(fd))) return -1;
  return syscall(SYS_pwrite64, fd, bytes, size, offset);
}

int fsync(int fd) {
  return refused("fsync", path_of(fd)) ? -1 : static_cast<int>(syscall(SYS_fsync, fd));
}

int ftruncate(int fd, off_t size) noexcept {
  return refused("ftruncate", path_of(fd)) ? -1 : static_cast<int>(syscall(SYS_ftruncate, fd, size));
}

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_of(flags, more);
  va_end(more);
  return open_file(AT_FDCWD, path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_of(flags, more);
  va_end(more);
  return open_file(AT_FDCWD, path, flags, mode);
}

int rename(const char* from, const char* to) noexcept {
  return refused("rename", to) ? -1
                               : static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  return refused("renameat2", to)
             ? -1
             : static_cast<int>(syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}

int mkdir(const char* path, mode_t mode) noexcept {
  return refused("mkdir", path) ? -1 : static_cast<int>(syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

int unlink(const char* path) noexcept {
  return refused("unlink", path) ? -1 : static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}

int rmdir(const char* path) noexcept {
  return refused("rmdir", path) ? -1 : static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}

}  // extern "C"
