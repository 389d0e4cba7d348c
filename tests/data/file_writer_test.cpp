#include "data/file_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data/data_error.h"
#include "data/mapped_file.h"
#include "tests/data/temporary_folder.h"

namespace penstock::data {
namespace {

using testing::HasSubstr;
using tests::get_file;
using tests::message_of;
using tests::put_file;
using tests::TemporaryFolder;

TEST(FileWriter, MakesTheFileAppearOnlyWhenComplete) {
  const TemporaryFolder folder;
  const std::string path = folder / "out";
  put_file(path, "old");
  std::string expected;
  {
    FileWriter writer(path);
    for (int i = 0; i < 300000; ++i) {
      const std::string line = std::to_string(i) + "\n";
      writer.write(line);
      expected += line;
    }
    const std::string large(3 << 20, 'x');  // more than the buffer: goes past it, in order
    writer.write(large);
    writer.write("end");
    expected += large + "end";
    EXPECT_EQ(writer.offset(), expected.size());
    EXPECT_EQ(get_file(path), "old");
    writer.commit();
  }
  EXPECT_EQ(get_file(path), expected);
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
}

TEST(FileWriter, LeavesNothingBehindWithoutCommit) {
  const TemporaryFolder folder;
  {
    FileWriter writer(folder / "out");
    writer.write("abc");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(FileWriter, WritesOverWhatAKilledProcessLeft) {
  const TemporaryFolder folder;
  put_file(folder / "out.partial", std::string(1000, 'z'));
  write_file(folder / "out", "short");
  EXPECT_EQ(get_file(folder / "out"), "short");
  EXPECT_FALSE(std::filesystem::exists(folder / "out.partial"));
}

TEST(FileWriter, RefusesASecondWriter) {
  const TemporaryFolder folder;
  FileWriter first(folder / "out");
  first.write("first");
  EXPECT_THAT(message_of<DataError>([&] { FileWriter second(folder / "out"); }),
              HasSubstr("another process"));
  first.commit();
  EXPECT_EQ(get_file(folder / "out"), "first");
}

TEST(FileWriter, NamesWhatIsWrong) {
  const TemporaryFolder folder;
  EXPECT_THAT(message_of<DataError>([&] { FileWriter writer(folder / "no/such/out"); }),
              testing::AllOf(HasSubstr("no/such/out"), HasSubstr("No such file or directory")));
  EXPECT_THAT(message_of<DataError>([&] { FileWriter writer(folder.path().string()); }),
              HasSubstr("found a folder"));
  put_file(folder / "file", "");
  EXPECT_THAT(message_of<DataError>([&] { FileWriter writer(folder / "file/out"); }),
              HasSubstr("Not a directory"));
  EXPECT_THAT(message_of<DataError>([&] { rename_durably(folder / "a", folder / "b"); }),
              HasSubstr("cannot rename"));
}

TEST(FileWriter, WritingAfterCommitIsABug) {
  const TemporaryFolder folder;
  FileWriter writer(folder / "out");
  writer.commit();
  EXPECT_THROW(writer.write(std::string(2 << 20, 'x')), std::logic_error);
}

// In a child process, which may lower its own limit of file sizes.
TEST(FileWriter, AFullDiskIsAnErrorWithItsOffset) {
  const TemporaryFolder folder;
  put_file(folder / "out", "old");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit limit{3 << 20, 3 << 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      FileWriter writer(folder / "out");
      for (int i = 0; i < 8; ++i) writer.write(std::string(1 << 20, 'x'));
      writer.commit();
      ::_exit(1);
    } catch (const DataError& error) {
      const std::string text = error.what();
      const bool good = text.find("at byte 3145728") != std::string::npos &&
                        text.find("File too large") != std::string::npos;
      ::_exit(good ? 0 : 2);
    }
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(get_file(folder / "out"), "old");
  EXPECT_FALSE(std::filesystem::exists(folder / "out.partial"));
}

TEST(MappedFile, ShowsTheBytes) {
  const TemporaryFolder folder;
  put_file(folder / "in", "abc");
  MappedFile file(folder / "in");
  EXPECT_EQ(file.text(), "abc");
  MappedFile moved = std::move(file);
  EXPECT_EQ(moved.text(), "abc");
  put_file(folder / "empty", "");
  EXPECT_EQ(MappedFile(folder / "empty").size(), 0u);
}

TEST(MappedFile, RefusesWhatCannotBeMapped) {
  const TemporaryFolder folder;
  EXPECT_THAT(message_of<DataError>([&] { MappedFile file(folder / "none"); }),
              testing::AllOf(HasSubstr("none: cannot open"), HasSubstr("No such file")));
  EXPECT_THAT(message_of<DataError>([&] { MappedFile file(folder.path().string()); }),
              HasSubstr("found a folder"));
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(message_of<DataError>([&] { MappedFile file(folder / "pipe"); }), HasSubstr("found a pipe"));
}

}  // namespace
}  // namespace penstock::data
