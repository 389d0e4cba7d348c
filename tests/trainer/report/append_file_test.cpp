#include "trainer/report/append_file.h"

#include <csignal>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "tests/trainer/report/report_folder.h"

namespace penstock::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(AppendFile, KeepsWhatIsThere) {
  const ReportFolder folder;
  std::ofstream(folder / "a") << "old\n";
  {
    AppendFile file(folder / "a", AppendFile::Tail::cut_partial_line, {});
    EXPECT_TRUE(file.append("new\n"));
  }
  EXPECT_EQ(folder.read("a"), "old\nnew\n");
}

TEST(AppendFile, CutsWhatAKilledProcessLeftIncomplete) {
  const ReportFolder folder;
  for (const std::string& partial : {std::string("{\"st"), std::string(10000, 'x')}) {
    for (const std::string& whole : {std::string(), std::string("{}\n"), std::string(4096, 'y') + "\n"}) {
      std::ofstream(folder / "a", std::ios::trunc) << whole << partial;
      AppendFile file(folder / "a", AppendFile::Tail::cut_partial_line, {});
      file.append("next\n");
      EXPECT_EQ(folder.read("a"), whole + "next\n");
    }
  }
}

TEST(AppendFile, ErrorsNameThePathAndTheReason) {
  const ReportFolder folder;
  try {
    AppendFile file(folder / "no/such/file", AppendFile::Tail::keep, {});
    FAIL();
  } catch (const ReportError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("no/such/file: cannot open for appending: No such file or directory"));
  }
}

// RLIMIT_FSIZE stands in for a full disk: the first bytes of a record fit, the rest do not.
TEST(AppendFile, AFullDiskLosesRecordsButNeverHalfOfOne) {
  const ReportFolder folder;
  std::vector<std::string> messages;
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  {
    AppendFile file(folder / "a", AppendFile::Tail::keep,
                    [&](const std::string& text) { messages.push_back(text); });
    EXPECT_TRUE(file.append("0123456789\n"));
    const rlimit limited{15, old.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limited), 0);
    EXPECT_FALSE(file.append("abcdefghij\n"));
    EXPECT_FALSE(file.append("klmnopqrst\n"));
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
    EXPECT_TRUE(file.append("uvwxyz\n"));
  }
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(folder.read("a"), "0123456789\nuvwxyz\n");
  EXPECT_THAT(messages, ElementsAre(HasSubstr("a: cannot append: File too large; the run goes on"),
                                    HasSubstr("a: writing again; 2 records are lost")));
}

TEST(AppendFile, AFullDeviceIsTold) {
  std::vector<std::string> messages;
  AppendFile file("/dev/full", AppendFile::Tail::cut_partial_line,
                  [&](const std::string& text) { messages.push_back(text); });
  EXPECT_FALSE(file.append("x\n"));
  EXPECT_FALSE(file.append("x\n"));
  EXPECT_THAT(messages, ElementsAre(HasSubstr("/dev/full: cannot append: No space left on device")));
}

}  // namespace
}  // namespace penstock::report
