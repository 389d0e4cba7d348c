#include "trainer/run_view/line_tail.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/data_error.h"
#include "tests/trainer/run_view/run_folder_copy.h"

namespace penstock::run_view {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Seen = LineTail::Seen;

class Reader {
 public:
  explicit Reader(const RunFolderCopy& folder, int64_t most = 0)
      : tail_((folder.path() / "log").string(), most) {}
  Seen read() {
    lines.clear();
    return tail_.read([this](std::string_view line) { lines.emplace_back(line); }, [this] { ++restarts; });
  }
  int64_t skipped() const { return tail_.skipped(); }
  std::vector<std::string> lines;
  int restarts = 0;

 private:
  LineTail tail_;
};

TEST(LineTail, ReadsEachLineOnceAndLeavesWhatIsBeingWritten) {
  const RunFolderCopy folder(false);
  Reader reader(folder);
  EXPECT_EQ(reader.read(), Seen::missing);
  folder.write("log", "");
  EXPECT_EQ(reader.read(), Seen::nothing);
  folder.append("log", "one\ntw");
  EXPECT_EQ(reader.read(), Seen::lines);
  EXPECT_THAT(reader.lines, ElementsAre("one"));
  EXPECT_EQ(reader.read(), Seen::nothing);
  folder.append("log", "o\n\nthree\n");
  EXPECT_EQ(reader.read(), Seen::lines);
  EXPECT_THAT(reader.lines, ElementsAre("two", "", "three"));
  EXPECT_EQ(reader.restarts, 0);
}

TEST(LineTail, APartialLineThatTheNextStartCutsOffIsNeverSeen) {
  const RunFolderCopy folder(false);
  Reader reader(folder);
  folder.write("log", "one\nkilled whi");
  reader.read();
  std::filesystem::resize_file(folder.path() / "log", 4);
  folder.append("log", "two\n");
  EXPECT_EQ(reader.read(), Seen::lines);
  EXPECT_THAT(reader.lines, ElementsAre("two"));
}

TEST(LineTail, AnotherFileOfTheSameNameIsReadFromItsBeginning) {
  const RunFolderCopy folder(false);
  Reader reader(folder);
  folder.write("log", "one\ntwo\n");
  reader.read();
  folder.write("new", "1\n2\n3\n");
  std::filesystem::rename(folder.path() / "new", folder.path() / "log");
  EXPECT_EQ(reader.read(), Seen::restarted);
  EXPECT_THAT(reader.lines, ElementsAre("1", "2", "3"));
  folder.write("log", "x\n");  // shorter
  EXPECT_EQ(reader.read(), Seen::restarted);
  EXPECT_THAT(reader.lines, ElementsAre("x"));
  EXPECT_EQ(reader.restarts, 2);
}

TEST(LineTail, OfALongFileOnlyTheEndIsRead) {
  const RunFolderCopy folder(false);
  folder.write("log", "first\nsecond\nthird\n");
  Reader cut(folder, 9);  // begins within "second"
  cut.read();
  EXPECT_THAT(cut.lines, ElementsAre("third"));
  EXPECT_EQ(cut.skipped(), 13);
  Reader whole(folder, 6);  // begins with a line
  whole.read();
  EXPECT_THAT(whole.lines, ElementsAre("third"));
  folder.append("log", "fourth\n");
  whole.read();
  EXPECT_THAT(whole.lines, ElementsAre("fourth"));
  Reader all(folder, 1000);
  all.read();
  EXPECT_EQ(all.lines.size(), 4U);
  EXPECT_EQ(all.skipped(), 0);
}

TEST(LineTail, LinesMayBeLongerThanAPiece) {
  const RunFolderCopy folder(false);
  const std::string longest(5 << 20, 'x');
  folder.write("log", "a\n" + longest + "\nb\n" + longest);
  Reader reader(folder);
  reader.read();
  ASSERT_EQ(reader.lines.size(), 3U);
  EXPECT_EQ(reader.lines[1], longest);
  EXPECT_EQ(reader.lines[2], "b");
}

TEST(LineTail, SaysWhatCannotBeRead) {
  const RunFolderCopy folder(false);
  std::filesystem::create_directory(folder.path() / "log");
  Reader reader(folder);
  try {
    reader.read();
    FAIL() << "a folder was read";
  } catch (const data::DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr((folder.path() / "log").string()));
    EXPECT_THAT(error.what(), HasSubstr("directory"));
  }
  EXPECT_THAT(reader.lines, IsEmpty());
}

}  // namespace
}  // namespace penstock::run_view
