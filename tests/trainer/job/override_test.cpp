#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/job/example_job.h"
#include "trainer/job/read_job.h"

namespace penstock {
namespace {

using testing::HasSubstr;

Job with(const std::vector<std::string>& overrides) {
  return parse_job(example_job(), "job.toml", overrides);
}

TEST(Override, TakesTomlValues) {
  EXPECT_EQ(with({"run.steps=7"}).run.steps, 7);
  EXPECT_EQ(with({"run.name=\"a b\""}).run.name, "a b");
  EXPECT_EQ(with({"run.name='single'"}).run.name, "single");
  EXPECT_EQ(with({"learning_rate.max=1e-2"}).learning_rate.max, 0.01);
  EXPECT_EQ(with({"learning_rate.max=1"}).learning_rate.max, 1.0);
  EXPECT_EQ(with({" run.steps = 7 "}).run.steps, 7);
  EXPECT_EQ(with({"data.train=[\"a\", {path = \"b\", weight = 2}]"}).data.train,
            (std::vector<DataSource>{{"a", 1.0}, {"b", 2.0}}));
  EXPECT_EQ(with({"run.name=a=b"}).run.name, "a=b");
}

TEST(Override, TakesBareStrings) {
  EXPECT_EQ(with({"run.name=first"}).run.name, "first");
  EXPECT_EQ(with({"run.name=123"}).run.name, "123");
  EXPECT_EQ(with({"run.name=true"}).run.name, "true");
  EXPECT_EQ(with({"run.name=2026-11-29"}).run.name, "2026-11-29");
  EXPECT_EQ(with({"run.max_wall_time=01:30:00"}).run.max_wall_time, 5400);
  EXPECT_EQ(with({"precision.compute=bf16"}).precision.compute, Precision::bf16);
  EXPECT_EQ(with({"data.validation=/data/x y"}).data.validation, "/data/x y");
  EXPECT_EQ(with({"data.validation="}).data.validation, "");
  EXPECT_EQ(with({"parallel.data=auto"}).parallel.data, 1);
}

TEST(Override, TheLastOneWins) {
  EXPECT_EQ(with({"run.steps=7", "run.steps=9"}).run.steps, 9);
  EXPECT_EQ(with({"run.steps=oops", "run.steps=9"}).run.steps, 9);
}

TEST(Override, MendsTheFile) {
  EXPECT_EQ(parse_job(changed("steps = 100", "steps = \"many\""), "job.toml", {"run.steps=5"}).run.steps, 5);
  EXPECT_EQ(
      parse_job("evaluation = 3\n" + example_job(), "job.toml", {"evaluation.batches=5"}).evaluation.batches,
      5);
}

TEST(Override, CanMakeAWholeJob) {
  const Job job = parse_job(
      "", "job.toml",
      {"run.name=x", "run.steps=1", "model.family=llama", "model.layers=1", "model.heads=2",
       "model.hidden_size=8", "model.sequence_length=4", "model.vocab_size=9", "model.ffn_hidden_size=16",
       "data.train=[\"t\"]", "batch.global=1", "batch.micro=1", "learning_rate.max=1e-3"});
  EXPECT_EQ(job.model.heads, 2);
}

struct Case {
  const char* argument;
  const char* message;
};
class RefusedOverride : public testing::TestWithParam<Case> {};

TEST_P(RefusedOverride, NamesTheArgument) {
  const std::string message = refusal(example_job(), {GetParam().argument});
  EXPECT_THAT(message, HasSubstr(std::string("--set: ") + GetParam().message));
  EXPECT_THAT(message, HasSubstr("1 problem in the job"));
}

INSTANTIATE_TEST_SUITE_P(
    Override, RefusedOverride,
    testing::Values(
        Case{"run.steps", "expected section.key=value, found no `=` in `run.steps`\n  --set | run.steps\n"},
        Case{"", "expected section.key=value, found no `=` in ``"},
        Case{"steps=3", "expected section.key=value, found no section in front of `steps`"},
        Case{"=3", "expected section.key=value, found an empty name left of `=`"},
        Case{"run.=3", "expected section.key=value, found an empty name left of `=`"},
        Case{".steps=3", "expected section.key=value, found an empty name left of `=`"},
        Case{"run..steps=3", "expected section.key=value, found an empty name left of `=`"},
        Case{"run.stpes=3", "run.stpes: unknown key; did you mean `steps`?"},
        Case{"runn.steps=3", "[runn]: unknown section; did you mean [run]?"},
        Case{"run.steps=many", "run.steps: expected integer ≥ 1, found \"many\" (string)"},
        Case{"run.steps=", "run.steps: expected integer ≥ 1, found \"\" (string)"},
        Case{"run.steps=[1", "not a valid TOML value: "}, Case{"run.name=\"x", "not a valid TOML value: "},
        Case{"run.name={a = }", "not a valid TOML value: "},
        Case{"run.name=[1]\nb = 2", "expected one value, found several"},
        Case{"run.steps.x=3", "run.steps: expected integer ≥ 1, found {x = 3} (table)"},
        Case{"run.steps=99999999999999999999", "run.steps: expected integer ≥ 1, found \"9999"},
        Case{"run.seed=-1", "run.seed: expected integer ≥ 0, found -1 (integer)"},
        Case{"data.train=x", "data.train: expected non-empty list of path"},
        Case{"data.train=[{pth = \"x\", path = \"y\"}]",
             "data.train[0].pth: unknown key; did you mean `path`?"},
        Case{"model.pipeline_model_parallel_size=2",
             "model.pipeline_model_parallel_size: a name of Megatron-LM; here it is `parallel.pipeline`"},
        Case{"batch.global=6", "batch.global: 6 sequences are no multiple of micro · data"}));

TEST(Override, TheCaretCountsCharacters) {
  EXPECT_THAT(refusal(example_job(), {"run.steps.ü=1"}),
              HasSubstr("  --set | run.steps.ü=1\n        |             ^\n"));
}

}  // namespace
}  // namespace penstock
