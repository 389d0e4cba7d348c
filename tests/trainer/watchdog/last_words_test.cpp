#include "trainer/watchdog/last_words.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::watchdog {
namespace {

using testing::HasSubstr;
using testing::Not;

class LastWordsTest : public testing::Test {
 protected:
  LastWordsTest() : folder_(std::filesystem::path(testing::TempDir()) / "last_words") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~LastWordsTest() override { std::filesystem::remove_all(folder_); }

  std::string text(const char* file) const {
    std::ostringstream out;
    out << std::ifstream(folder_ / file).rdbuf();
    return out.str();
  }
  void status(const std::string& json) const { std::ofstream(folder_ / "status.json") << json; }
  void end(uint64_t attempt, const std::string& reason) const {
    write_outcome({folder_, attempt, 0, ""}, 7, {"watchdog", 70, reason, {}});
  }

  std::filesystem::path folder_;
};

TEST_F(LastWordsTest, EndARunThatGoesOn) {
  status(R"({"schema": 1, "state": "running", "attempt": 2, "step": 7})");
  end(2, "rank 1 is gone");
  EXPECT_THAT(text("status.json"), HasSubstr("\"state\": \"failed\""));
  EXPECT_THAT(text("status.json"), HasSubstr("rank 1 is gone"));
  EXPECT_THAT(text("events.jsonl"), HasSubstr("rank 1 is gone"));
}

// As a rank that was stopped does: it is continued when the others have named it and left, and finds them
// gone.
TEST_F(LastWordsTest, OfAnAttemptThatHasEndedAreNotHeard) {
  status(R"({"schema": 1, "state": "running", "attempt": 2, "step": 7})");
  end(2, "rank 0 was stopped");
  end(2, "rank 1 is gone");
  EXPECT_THAT(text("status.json"), HasSubstr("rank 0 was stopped"));
  EXPECT_THAT(text("events.jsonl"), Not(HasSubstr("rank 1 is gone")));
}

TEST_F(LastWordsTest, OfALaterAttemptAreItsOwn) {
  status(R"({"schema": 1, "state": "failed", "attempt": 1, "step": 7, "reason": "before"})");
  end(2, "rank 1 is gone");
  EXPECT_THAT(text("status.json"), HasSubstr("rank 1 is gone"));
  status(R"({"schema": 1, "state": "running", "attempt": 3, "step": 7})");
  end(2, "late");
  EXPECT_THAT(text("status.json"), Not(HasSubstr("late")));
}

}  // namespace
}  // namespace penstock::watchdog
