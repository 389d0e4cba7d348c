// A command's answer that cannot be written is a failure, as a script sees it.
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trainer/commands/run_command.h"

namespace penstock::commands {
namespace {

// In a process of its own, whose standard output is `path`.
[[noreturn]] void answer_into(const char* path, int exit_code) {
  if (std::freopen(path, "w", stdout) == nullptr) std::_Exit(99);
  fmt::print("an answer\n");
  std::_Exit(checked_output(exit_code));
}

TEST(CheckedOutput, AFullDiskIsAFailure) {
  EXPECT_EXIT(answer_into("/dev/full", 0), testing::ExitedWithCode(6),
              "cannot write to standard output: No space left on device");
}

TEST(CheckedOutput, TheCommandsOwnFailureStays) {
  EXPECT_EXIT(answer_into("/dev/full", 3), testing::ExitedWithCode(3), "cannot write");
}

TEST(CheckedOutput, IsQuietWhereAllIsWritten) {
  EXPECT_EXIT(answer_into("/dev/null", 0), testing::ExitedWithCode(0), "^$");
}

}  // namespace
}  // namespace penstock::commands
