#include "trainer/run_folder.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "data/data_error.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct RunFolderTest : testing::Test {
  fs::path root = fs::temp_directory_path() / ("penstock-run-folder-" + std::to_string(getpid()));
  ~RunFolderTest() override { fs::remove_all(root); }
};

TEST_F(RunFolderTest, MakesItsFolders) {
  const RunFolder folder(root / "deep" / "run");
  EXPECT_TRUE(fs::is_directory(folder.logs()));
  EXPECT_TRUE(fs::is_directory(folder.checkpoints()));
  EXPECT_TRUE(fs::is_directory(folder.control()));
}

TEST_F(RunFolderTest, ASecondJobIsRefusedWithWhoHoldsIt) {
  const RunFolder first(root);
  try {
    const RunFolder second(root);
    FAIL() << "two jobs hold one folder";
  } catch (const RunFolderError& error) {
    EXPECT_THAT(error.what(), HasSubstr("process " + std::to_string(getpid())));
    EXPECT_THAT(error.what(), HasSubstr(root.string()));
  }
}

TEST_F(RunFolderTest, IsFreeAgainOnceItsHolderIsGone) {
  { const RunFolder first(root); }
  EXPECT_NO_THROW(RunFolder{root});
}

TEST_F(RunFolderTest, AFileInTheWayIsNamed) {
  fs::create_directories(root);
  std::ofstream(root / "logs").put('x');
  try {
    const RunFolder folder(root);
    FAIL();
  } catch (const data::WriteError& error) {
    EXPECT_THAT(error.what(), HasSubstr((root / "logs").string()));
  }
}

}  // namespace
}  // namespace penstock
