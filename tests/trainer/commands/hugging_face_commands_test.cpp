// `import` and `export` as a user gives them.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/temporary_folder.h"
#include "trainer/commands/byte_size.h"
#include "trainer/commands/export.h"
#include "trainer/commands/import.h"

namespace penstock::commands {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

struct HuggingFaceCommands : testing::Test {
  struct Answer {
    int status = -1;
    std::string out;
    std::string error;
  };

  static Answer answer(std::vector<std::string> arguments) {
    CLI::App app{"penstock"};
    Answer result;
    add_export(app, result.status);
    add_import(app, result.status);
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    std::reverse(arguments.begin(), arguments.end());
    try {
      app.parse(std::move(arguments));
    } catch (const CLI::ParseError& error) {
      result.error = error.what();
    }
    result.out = testing::internal::GetCapturedStdout();
    result.error += testing::internal::GetCapturedStderr();
    return result;
  }

  tests::TemporaryFolder folder;
  std::string model = std::string(PENSTOCK_SOURCE_DIR) + "/tests/trainer/hugging_face/fixtures/gpt2";
};

TEST_F(HuggingFaceCommands, ThereAndBack) {
  const Answer in = answer({"import", model, "-o", folder / "run/"});
  EXPECT_EQ(in.status, 0) << in.error;
  EXPECT_THAT(in.out, AllOf(HasSubstr("11240 parameters of " + model + " (gpt2, F32)"),
                            HasSubstr("go on with " + folder / "run/job.toml")));
  EXPECT_THAT(in.error, HasSubstr("note: no tokenizer.json"));
  const Answer out = answer({"export", folder / "run", "--to", "hf", "-o", folder / "out", "--dtype", "bf16",
                             "--shard-size", "10KB"});
  EXPECT_EQ(out.status, 0) << out.error;
  EXPECT_THAT(out.out, AllOf(HasSubstr("as gpt2, bf16"), HasSubstr("model-00001-of-00003.safetensors"),
                             HasSubstr("model.safetensors.index.json")));
  const Answer again = answer({"export", folder / "run/checkpoints/step-00000000", "-o", folder / "out"});
  EXPECT_EQ(again.status, 6);
  EXPECT_THAT(again.error, HasSubstr("--force"));
  EXPECT_EQ(answer({"export", folder / "run", "-o", folder / "out", "--force"}).status, 0);
  EXPECT_TRUE(fs::exists(folder / "out/model.safetensors"));
  EXPECT_FALSE(fs::exists(folder / "out/model.safetensors.index.json")) << "of the export before";
}

TEST_F(HuggingFaceCommands, SayWhatIsWrong) {
  EXPECT_EQ(answer({"import", folder / "nowhere", "-o", folder / "run"}).status, 3);
  EXPECT_EQ(answer({"export", folder / "nowhere", "-o", folder / "out"}).status, 4);
  EXPECT_THAT(answer({"export", "run", "-o", "out", "--shard-size", "0"}).error,
              HasSubstr("expected a size"));
  EXPECT_THAT(answer({"export", "run", "-o", "out", "--to", "gguf"}).error, HasSubstr("gguf"));
  EXPECT_THAT(answer({"export", "run", "-o", "out", "--dtype", "fp16"}).error, HasSubstr("fp16"));
  EXPECT_THAT(answer({"import", model, "-o", "run", "--job", "j", "--sequence-length", "8"}).error,
              HasSubstr("--job"));
  const std::string run = folder / "run";
  EXPECT_EQ(answer({"import", model, "-o", run}).status, 0);
  EXPECT_EQ(answer({"import", model, "-o", run}).status, 2) << "the run has a checkpoint";
}

TEST(ByteSize, HasUnits) {
  EXPECT_EQ(byte_size("5GB"), 5'000'000'000U);
  EXPECT_EQ(byte_size("1.5MB"), 1'500'000U);
  EXPECT_EQ(byte_size("2GiB"), uint64_t{2} << 30);
  EXPECT_EQ(byte_size("512"), 512U);
  EXPECT_EQ(byte_size("7B"), 7U);
  for (const char* wrong :
       {"", "GB", "5 GB", "5gb", "-1GB", "0", "0.5", "nan", "inf", "1e400", "9e18TB", "99999999TB"})
    EXPECT_FALSE(byte_size(wrong)) << wrong;
}

}  // namespace
}  // namespace penstock::commands
