#include "trainer/checkpoint/room.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "data/data_error.h"
#include "kernels/device/host_name.h"
#include "trainer/checkpoint/attempt_fence.h"
#include "trainer/checkpoint/checkpoint_error.h"
#include "trainer/checkpoint/step_folders.h"

namespace penstock::checkpoint {
namespace {

double gibibytes(uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

}  // namespace

void check_reachable(const std::string& checkpoints, uint64_t attempt) {
  constexpr std::chrono::seconds patience{10};
  constexpr std::chrono::milliseconds between_tries{100};
  const auto deadline = std::chrono::steady_clock::now() + patience;
  try {
    while (newest_attempt(checkpoints) < attempt) {
      if (std::chrono::steady_clock::now() > deadline) {
        throw SaveError(
            fmt::format("{} on {}: found attempt {}, expected {}, which rank 0 has taken: not the same "
                        "folder; put run.folder "
                        "on a file system that all hosts share",
                        checkpoints, host_name(), newest_attempt(checkpoints), attempt));
      }
      std::this_thread::sleep_for(between_tries);
    }
    if (::access(checkpoints.c_str(), W_OK | X_OK) != 0)
      throw data::system_error(checkpoints, "write there", errno);
  } catch (const data::DataError& error) {
    throw SaveError(fmt::format("checkpoints cannot be saved from {}: {}", host_name(), error.what()));
  }
}

std::string check_space(const std::string& checkpoints, uint64_t bytes, int keep_last) {
  struct statvfs status = {};
  if (::statvfs(checkpoints.c_str(), &status) != 0) {
    throw SaveError(data::system_error(checkpoints, "ask for the free space", errno).what());
  }
  const uint64_t available = static_cast<uint64_t>(status.f_bavail) * status.f_frsize;
  if (available < bytes) {
    throw SaveError(fmt::format(
        "{}: found {} bytes free ({:.2f} GiB), expected at least {} ({:.2f} GiB) for one more checkpoint; "
        "free space or choose another run.folder",
        checkpoints, available, gibibytes(available), bytes, gibibytes(bytes)));
  }
  const std::vector<StepFolder> folders = scan(checkpoints);
  const auto there = std::count_if(folders.begin(), folders.end(), [](const StepFolder& folder) {
    return folder.kind == StepFolder::Kind::complete;
  });
  const auto to_come = static_cast<uint64_t>(keep_last + 1 - std::min<int64_t>(there, keep_last));
  if (available / std::max<uint64_t>(bytes, 1) >= to_come) return "";
  return fmt::format(
      "{}: found {:.2f} GiB free, expected {:.2f} GiB for {} more checkpoints ({} are kept, and one is "
      "written "
      "before an old one is deleted); a save may fail for want of space",
      checkpoints, gibibytes(available), gibibytes(bytes) * static_cast<double>(to_come), to_come, keep_last);
}

}  // namespace penstock::checkpoint
