// Between two steps nobody waits for the disk; what a job leaves behind is on it.
#include <atomic>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "trainer/report/status_file.h"

namespace {
std::atomic<int> syncs{0};
}  // namespace

// Takes the library's place in this binary.
extern "C" int fsync(int fd) {
  ++syncs;
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace penstock::report {
namespace {

TEST(StatusFile, DoesNotWaitForTheDiskWhileTheJobRuns) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("penstock_status_sync_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  StatusFile file((folder / "status.json").string(), [](const std::string& text) { ADD_FAILURE() << text; });
  Status status;
  status.state = Status::State::starting;
  file.update(status);
  const int before = syncs;
  EXPECT_GT(before, 0);
  status.state = Status::State::running;
  status.last_checkpoint = 3;
  file.update(status);
  EXPECT_EQ(syncs, before);
  EXPECT_TRUE(std::filesystem::exists(folder / "status.json"));
  EXPECT_FALSE(std::filesystem::exists(folder / "status.json.partial"));
  status.state = Status::State::finished;
  file.update(status);
  EXPECT_GT(syncs, before);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace penstock::report
