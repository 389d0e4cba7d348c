#include "trainer/checkpoint/attempt_fence.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "data/data_error.h"
#include "data/file_writer.h"
#include "data/mapped_file.h"
#include "trainer/checkpoint/checkpoint_error.h"
#include "trainer/checkpoint/step_folders.h"

namespace penstock::checkpoint {
namespace {

// The lock is held for a few renames; a holder that was stopped in there must not hang the next attempt for
// ever.
constexpr std::chrono::milliseconds longest_wait{30'000};
constexpr std::chrono::milliseconds between_tries{10};

std::string attempt_path(const std::string& checkpoints) {
  return checkpoints + "/attempt";
}

}  // namespace

uint64_t newest_attempt(const std::string& checkpoints) {
  const std::string path = attempt_path(checkpoints);
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) return 0;
  const data::MappedFile file(path);
  const std::string_view text = file.text();
  uint64_t attempt = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), attempt);
  if (problem != std::errc{} ||
      std::string_view(end, static_cast<size_t>(text.data() + text.size() - end)) != "\n") {
    throw data::DataError(data::Fault{path, 0, fmt::format("{} bytes that are no number", text.size()),
                                      "the number of the newest attempt",
                                      "delete the file if no job is running in this folder"});
  }
  return attempt;
}

FolderLock::FolderLock(const std::string& checkpoints) {
  const std::string path = checkpoints + "/lock";
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) throw data::system_error(path, "create it", errno);
  const auto deadline = std::chrono::steady_clock::now() + longest_wait;
  while (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    // A file system without locks leaves a window of microseconds between check and rename; nothing closes it
    // there.
    if (errno == ENOLCK || errno == ENOSYS || errno == ENOTSUP) break;
    if (errno != EINTR && errno != EWOULDBLOCK) {
      const int error = errno;
      ::close(fd_);
      throw data::system_error(path, "lock it", error);
    }
    if (std::chrono::steady_clock::now() > deadline) {
      ::close(fd_);
      throw data::DataError(data::Fault{path,
                                        {},
                                        "a lock that another process holds for 30 s",
                                        "a free lock",
                                        "find the process that has it open (fuser) and stop it"});
    }
    std::this_thread::sleep_for(between_tries);
  }
}

FolderLock::~FolderLock() {
  ::close(fd_);
}

uint64_t take_next_attempt(const std::string& checkpoints) {
  const FolderLock lock(checkpoints);
  uint64_t newest = newest_attempt(checkpoints);
  // Where the file was lost, the folders still say which attempts there were.
  for (const StepFolder& folder : scan(checkpoints)) newest = std::max(newest, folder.attempt);
  data::write_file(attempt_path(checkpoints), fmt::format("{}\n", newest + 1));
  return newest + 1;
}

AttemptFence::AttemptFence(const std::string& checkpoints, uint64_t attempt) : lock_(checkpoints) {
  const uint64_t newest = newest_attempt(checkpoints);
  if (newest != attempt) {
    throw FencedError(
        fmt::format("{}: found attempt {}, expected {}: the run was started again elsewhere and this "
                    "attempt must not save any more; stop it",
                    attempt_path(checkpoints), newest, attempt));
  }
}

}  // namespace penstock::checkpoint
