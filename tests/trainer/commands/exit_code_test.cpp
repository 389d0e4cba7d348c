// One table from what went wrong to the exit code, whatever the command.
#include <cerrno>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <typeinfo>

#include <gtest/gtest.h>

#include "data/data_error.h"
#include "data/file_writer.h"
#include "kernels/transport/launch.h"
#include "parallel/planner/cut.h"
#include "parallel/planner/plan.h"
#include "parallel/planner/profile.h"
#include "parallel/runtime/disturbance.h"
#include "parallel/schedule/schedule.h"
#include "trainer/checkpoint/checkpoint_error.h"
#include "trainer/commands/run_command.h"
#include "trainer/job/problems.h"
#include "trainer/memory_limit.h"
#include "trainer/report/append_file.h"
#include "trainer/resume.h"
#include "trainer/run_folder.h"

namespace penstock::commands {
namespace {

namespace fs = std::filesystem;

template <class Error>
void expect(ExitCode code) {
  EXPECT_EQ(exit_code_of(Error("x")), code) << typeid(Error).name();
}

TEST(ExitCodes, ArgumentsAndTheFilesThatDescribeWhatToDo) {
  EXPECT_EQ(exit_code_of(JobError("x", 1)), ExitCode::usage);
  expect<ResumeError>(ExitCode::usage);
  expect<MemoryLimitError>(ExitCode::usage);
  expect<transport::LaunchError>(ExitCode::usage);
  expect<schedule::ScheduleError>(ExitCode::usage);
  expect<runtime::DisturbanceError>(ExitCode::usage);
  expect<planner::PartitionError>(ExitCode::usage);
  expect<planner::PlanError>(ExitCode::usage);
  expect<planner::ProfileError>(ExitCode::usage);
  expect<RunFolderError>(ExitCode::usage);
}

TEST(ExitCodes, WhatIsReadWhatIsWrittenAndBugs) {
  EXPECT_EQ(exit_code_of(data::DataError("x")), ExitCode::data);
  EXPECT_EQ(exit_code_of(data::system_error("f", "read it", EIO)), ExitCode::data);
  EXPECT_EQ(exit_code_of(data::write_error("f", "write it", ENOSPC)), ExitCode::storage);
  expect<report::ReportError>(ExitCode::storage);
  expect<checkpoint::SaveError>(ExitCode::storage);
  expect<checkpoint::CheckpointError>(ExitCode::no_checkpoint);
  expect<std::logic_error>(ExitCode::internal_error);
  expect<std::runtime_error>(ExitCode::internal_error);
}

ExitCode thrown_by(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    return exit_code_of(error);
  }
  return ExitCode::finished;
}

// Whoever writes: a folder in the way, or one that is missing, is storage's.
TEST(ExitCodes, EveryWriterAnswersAlike) {
  const std::string folder = testing::TempDir() + "penstock-exit-codes";
  fs::remove_all(folder);
  fs::create_directories(folder);
  std::ofstream(folder + "/file").put('x');
  EXPECT_EQ(thrown_by([&] { data::write_file(folder, "x"); }), ExitCode::storage);
  EXPECT_EQ(thrown_by([&] { data::write_file(folder + "/none/x", "x"); }), ExitCode::storage);
  EXPECT_EQ(thrown_by([&] { data::write_file("/proc/x", "x"); }), ExitCode::storage);
  EXPECT_EQ(thrown_by([&] { RunFolder run(folder + "/file/run"); }), ExitCode::storage);
  EXPECT_EQ(
      thrown_by([&] { report::AppendFile(folder + "/none/x", report::AppendFile::Tail::keep, nullptr); }),
      ExitCode::storage);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace penstock::commands
