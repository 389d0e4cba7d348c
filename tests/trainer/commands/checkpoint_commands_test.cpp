// The checkpoint commands as a user gives them: folders in, words or JSON and a status out.
#include <filesystem>
#include <fstream>

#include <CLI/CLI.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/data/temporary_folder.h"
#include "trainer/checkpoint/checkpoint_writer.h"
#include "trainer/commands/checkpoint_diff.h"
#include "trainer/commands/checkpoint_list.h"
#include "trainer/commands/checkpoint_prune.h"
#include "trainer/commands/checkpoint_verify.h"

namespace penstock::commands {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct Answer {
  int status = -1;
  std::string out;
  std::string error;
};

class CheckpointCommands : public testing::Test {
 protected:
  CheckpointCommands() {
    save("a", 1, 2);
    save("a", 2, 3);
    save("same", 2, 3);
    save("other", 2, 4);
  }

  std::string run(const std::string& name) const { return folder_ / name; }
  std::string at(const std::string& name, int step) const {
    return run(name) + "/checkpoints/step-0000000" + std::to_string(step);
  }

  void damage(const std::string& name, int step) const {
    const fs::path shard = fs::path(at(name, step)) / "shard-00000.safetensors";
    std::fstream(shard, std::ios::in | std::ios::out)
        .seekp(static_cast<std::streamoff>(fs::file_size(shard)) - 1)
        .put('!');
  }

  static Answer answer(std::vector<std::string> arguments) {
    CLI::App app{"penstock"};
    Answer result;
    add_checkpoint_list(app, result.status);
    add_checkpoint_verify(app, result.status);
    add_checkpoint_prune(app, result.status);
    add_checkpoint_diff(app, result.status);
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    std::reverse(arguments.begin(), arguments.end());
    app.parse(std::move(arguments));
    result.out = testing::internal::GetCapturedStdout();
    result.error = testing::internal::GetCapturedStderr();
    return result;
  }

  // One tensor, (2, 2) of 1, 1, 1 and `value`.
  void save(const std::string& name, int64_t step, float value) const {
    fs::create_directories(run(name));
    const std::string checkpoints = run(name) + "/checkpoints";
    std::vector<float> values{1, 1, 1, value};
    const checkpoint::CheckpointWriter writer(checkpoints, checkpoint::claim_attempt(checkpoints).attempt);
    writer.begin(step);
    checkpoint::Manifest manifest;
    manifest.step = step;
    manifest.program = "test";
    writer.commit(
        manifest,
        {writer.write(step, 0,
                      {checkpoint::whole("layers.0.weight", Tensor(values.data(), DType::fp32, {2, 2}))})});
  }

 private:
  tests::TemporaryFolder folder_;
};

TEST_F(CheckpointCommands, DiffOfRunsComparesTheNewest) {
  const Answer same = answer({"diff", run("a"), run("same")});
  EXPECT_EQ(same.status, 0);
  EXPECT_THAT(same.out, AllOf(HasSubstr("identical: 1 tensors, 16 B"), HasSubstr(at("a", 2)),
                              HasSubstr(at("same", 2))));
  const Answer different = answer({"diff", run("a"), run("other")});
  EXPECT_EQ(different.status, 1);
  EXPECT_THAT(different.out, AllOf(HasSubstr("different: 1 of 1 tensors"), HasSubstr("layers.0.weight"),
                                   HasSubstr("0.25"), HasSubstr("(1, 1)"), Not(HasSubstr("identical"))));
  EXPECT_EQ(same.error + different.error, "");
}

TEST_F(CheckpointCommands, DiffOfFoldersAndAsJson) {
  EXPECT_EQ(answer({"diff", at("a", 2) + "/", run("same")}).status, 0);
  const Answer different = answer({"diff", at("a", 1), at("a", 2), "--json"});
  EXPECT_EQ(different.status, 1);
  const json object = json::parse(different.out);
  EXPECT_EQ(object["identical"], false);
  EXPECT_EQ(object["values"],
            json::parse(R"([{"name": "layers.0.weight", "elements": 4, "differing": 1, "first": 3,
                            "max_absolute": 1.0, "max_relative": 0.3333333333333333}])"));
  EXPECT_EQ(object["state"], json::parse(R"([{"name": "step", "a": "1", "b": "2"}])"));
  EXPECT_EQ(json::parse(answer({"diff", at("a", 2), at("same", 2), "--json"}).out)["identical"], true);
}

TEST_F(CheckpointCommands, PruneLeavesTheNewestAndWhatIsDamaged) {
  save("a", 3, 1);
  save("a", 4, 1);
  damage("a", 1);
  fs::resize_file(fs::path(at("a", 1)) / "shard-00000.safetensors", 9);
  const Answer dry = answer({"prune", run("a"), "--keep-last", "1", "--keep-every-steps", "3", "--dry-run"});
  EXPECT_EQ(dry.status, 0);
  EXPECT_THAT(dry.out,
              AllOf(HasSubstr("would delete " + at("a", 2) + "\n"), Not(HasSubstr("delete " + at("a", 3))),
                    HasSubstr(at("a", 1) + ": damaged, not deleted")));
  EXPECT_TRUE(fs::exists(at("a", 2)));
  const Answer done = answer({"prune", run("a"), "--keep-last", "1", "--keep-every-steps", "3", "--json"});
  const json object = json::parse(done.out);
  EXPECT_EQ(object["pruned"], json::parse("[\"deleted " + at("a", 2) + "\"]"));
  EXPECT_EQ(object["checkpoints"].size(), 3u);
  EXPECT_FALSE(fs::exists(at("a", 2)));
  EXPECT_TRUE(fs::exists(at("a", 1)) && fs::exists(at("a", 3)) && fs::exists(at("a", 4)));
  EXPECT_THAT(answer({"prune", run("a")}).out, HasSubstr("nothing to delete"));
  EXPECT_EQ(answer({"prune", at("a", 3)}).status, 4);
}

TEST_F(CheckpointCommands, DiffNamesWhatIsDamaged) {
  damage("a", 2);
  const Answer folder = answer({"diff", at("a", 2), run("same")});
  EXPECT_EQ(folder.status, 4);
  EXPECT_THAT(folder.error, AllOf(HasSubstr(at("a", 2)), HasSubstr("layers.0.weight")));
  EXPECT_EQ(folder.out, "");
  // Of a run the newest whole one is taken, and the other named.
  const Answer older = answer({"diff", run("a"), run("same")});
  EXPECT_EQ(older.status, 1);
  EXPECT_THAT(older.out, HasSubstr(at("a", 1)));
  EXPECT_THAT(older.error, AllOf(HasSubstr("passed over"), HasSubstr(at("a", 2))));
  fs::remove(at("a", 2) + "/manifest.json");
  EXPECT_THAT(answer({"diff", at("a", 2), run("same")}).error, HasSubstr("manifest.json"));
}

TEST_F(CheckpointCommands, DiffOfSomethingElseSaysWhatItLookedFor) {
  fs::create_directories(run("empty") + "/checkpoints");
  const Answer empty = answer({"diff", run("empty"), run("a")});
  EXPECT_EQ(empty.status, 4);
  EXPECT_THAT(empty.error, HasSubstr("found no checkpoint"));
  const Answer nothing = answer({"diff", run("a"), run("nowhere")});
  EXPECT_EQ(nothing.status, 4);
  EXPECT_THAT(nothing.error,
              AllOf(HasSubstr(run("nowhere")), HasSubstr("expected a checkpoint's folder or a run's")));
}

TEST_F(CheckpointCommands, ListAndVerifyShowDamage) {
  EXPECT_THAT(answer({"list", run("a")}).out,
              AllOf(HasSubstr(at("a", 1) + "\n"), HasSubstr(at("a", 2) + "\n")));
  EXPECT_EQ(answer({"verify", run("a")}).status, 0);
  damage("a", 2);
  const Answer run_verified = answer({"verify", run("a")});
  EXPECT_EQ(run_verified.status, 4);
  EXPECT_THAT(run_verified.out, AllOf(HasSubstr(at("a", 1) + ": whole"),
                                      HasSubstr(at("a", 2) + ": damaged\n  "), HasSubstr("layers.0.weight")));
  const Answer one = answer({"verify", at("a", 2), "--json"});
  EXPECT_EQ(one.status, 4);
  EXPECT_EQ(json::parse(one.out)["damaged"], 1);
  fs::resize_file(fs::path(at("a", 1)) / "shard-00000.safetensors", 9);
  const json listed = json::parse(answer({"list", run("a"), "--json"}).out);
  ASSERT_EQ(listed["checkpoints"].size(), 2u);
  EXPECT_EQ(listed["checkpoints"][0]["step"], 1);
  EXPECT_THAT(listed["checkpoints"][0]["problem"].get<std::string>(), HasSubstr("9 bytes"));
  EXPECT_EQ(answer({"list", at("a", 1)}).status, 4) << "a checkpoint is no run";
}

}  // namespace
}  // namespace penstock::commands
