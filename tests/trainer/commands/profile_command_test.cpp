// `penstock profile` as a user starts it: as threads of this process.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "parallel/planner/profile.h"
#include "trainer/commands/profile.h"
#include "trainer/commands/usage_error.h"
#include "trainer/job/exit_code.h"
#include "trainer/job/read_job.h"
#include "trainer/job_costs.h"

namespace penstock::commands {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct ProfileCommand : testing::Test {
  fs::path root = fs::temp_directory_path() / fmt::format("penstock-profile-{}", getpid());
  fs::path job = root / "job.toml";

  ProfileCommand() {
    fs::remove_all(root);
    fs::create_directories(root);
    std::ofstream(job) << fmt::format(R"(
[run]
name = "p"
folder = "{}"
steps = 6
[model]
family = "llama"
layers = 2
hidden_size = 16
heads = 2
ffn_hidden_size = 32
sequence_length = 8
vocab_size = 60
[data]
train = ["nowhere"]
[batch]
global = 8
micro = 2
[learning_rate]
max = 1e-2
)",
                                      root.string());
  }
  ~ProfileCommand() override { fs::remove_all(root); }

  struct Answer {
    int code = 0;
    std::string out;
    std::string err;
  };
  static Answer run(std::vector<std::string> words) {
    Answer answer;
    CLI::App app{"penstock"};
    add_profile(app, answer.code);
    words.insert(words.begin(), "profile");
    std::reverse(words.begin(), words.end());  // as CLI11 wants them
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    try {
      app.parse(words);
    } catch (const CLI::ParseError& error) {
      answer.code = report_usage_error(app, error);
    }
    answer.out = testing::internal::GetCapturedStdout();
    answer.err = testing::internal::GetCapturedStderr();
    return answer;
  }
};

TEST_F(ProfileCommand, WritesWhatTrainTakes) {
  const Answer answer =
      run({job.string(), "--repetitions", "3", "--set", "parallel.pipeline=2", "--set", "parallel.data=2"});
  ASSERT_EQ(answer.code, 0) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("attention        none"));
  EXPECT_THAT(answer.out, HasSubstr("rank 0 to 1"));
  EXPECT_THAT(answer.err, HasSubstr("100 %"));
  const planner::Profile profile = planner::read_profile_file((root / "p" / "profile.json").string());
  EXPECT_EQ(profile.shapes.size(), 3U);  // 1, 2 and 4 sequences divide the 4 of a replica
  EXPECT_FALSE(profile.versions.empty());
  const Job asked = read_job(job, {"parallel.pipeline=2", "parallel.data=1"});
  Backend backend = make_backend(asked, 0);
  EXPECT_TRUE(job_costs(asked, backend, nullptr).measured);
}

TEST_F(ProfileCommand, MeasuresWhatItIsAskedFor) {
  const std::string file = (root / "deep" / "asked.json").string();
  const Answer answer = run({job.string(), "--repetitions", "3", "--micro-batches", "4,1", "--recompute",
                             "none,full", "--output", file});
  ASSERT_EQ(answer.code, 0) << answer.err;
  const planner::Profile profile = planner::read_profile_file(file);
  ASSERT_EQ(profile.shapes.size(), 2U);
  EXPECT_EQ(profile.shapes[0].micro_batch, 1);
  EXPECT_EQ(profile.shapes[1].micro_batch, 4);
  ASSERT_EQ(profile.units[1].sizes[0].modes.size(), 2U);
  EXPECT_EQ(profile.units[1].sizes[0].modes[1].mode, planner::Recompute::full);
}

TEST_F(ProfileCommand, RefusesWhatItCannotMeasure) {
  const Answer odd = run({job.string(), "--micro-batches", "3"});
  EXPECT_EQ(odd.code, static_cast<int>(ExitCode::usage));
  EXPECT_THAT(odd.err, HasSubstr("--micro-batches 3: does not divide the 8 sequences"));
  const Answer neither = run({});
  EXPECT_EQ(neither.code, static_cast<int>(ExitCode::usage));
  EXPECT_THAT(neither.err, HasSubstr("--from-run"));
  const Answer nowhere = run({"--from-run", (root / "nowhere").string()});
  EXPECT_EQ(nowhere.code, static_cast<int>(ExitCode::usage));
  EXPECT_THAT(nowhere.err, HasSubstr("no run's folder"));
}

}  // namespace
}  // namespace penstock::commands
