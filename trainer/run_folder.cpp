#include "trainer/run_folder.h"

#include <cerrno>
#include <chrono>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "data/data_error.h"

namespace penstock {
namespace {

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown host";
}

void write_holder(int lock, const std::filesystem::path& path) {
  const std::string holder = fmt::format("process {} on {} since {:%Y-%m-%d %H:%M:%S} UTC\n", getpid(),
                                         host_name(), fmt::gmtime(std::chrono::system_clock::now()));
  if (ftruncate(lock, 0) != 0 ||
      pwrite(lock, holder.data(), holder.size(), 0) != static_cast<ssize_t>(holder.size())) {
    throw data::write_error(path.string(), "write the lock file", errno);
  }
}

}  // namespace

RunFolder::RunFolder(std::filesystem::path root) : RunPaths(std::move(root)) {
  for (const auto& folder : {this->root(), logs(), checkpoints(), control()}) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error || !std::filesystem::is_directory(folder)) {
      throw data::write_error(folder.string(), "create the folder (run.folder and run.name say where)",
                              error ? error.value() : ENOTDIR);
    }
  }
  const std::filesystem::path path = lock();
  lock_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0) {
    throw data::write_error(path.string(), "create the lock file", errno);
  }
  if (flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    const int reason = errno;
    std::ostringstream holder;
    holder << std::ifstream(path).rdbuf();
    close(lock_);
    if (reason != EWOULDBLOCK) {
      throw data::write_error(path.string(), "lock it", reason);
    }
    std::string who = holder.str();
    while (!who.empty() && who.back() == '\n') who.pop_back();
    throw RunFolderError(
        fmt::format("the run folder {} is in use by {}. Wait for it, stop it (touch {}), or give this "
                    "job another run.name",
                    this->root().string(), who, (control() / "stop").string()));
  }
  write_holder(lock_, path);
}

RunFolder::~RunFolder() {
  close(lock_);
}

}  // namespace penstock
