#include "trainer/job/write_job.h"

#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/job/example_job.h"

namespace penstock {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

Job job_of(const std::vector<std::string>& overrides) {
  return parse_job(example_job(), "job.toml", overrides);
}

TEST(WriteJob, TheResolvedJobReproducesTheRun) {
  const std::vector<std::vector<std::string>> variants{
      {},
      {"model.family=llama", "model.ffn_hidden_size=96", "model.kv_heads=1", "model.qk_norm=true",
       "model.head_dim=8"},
      {"learning_rate.max=0.3", "learning_rate.decay_style=wsd", "run.max_wall_time=100:00:01"},
      {"model.vocab_size=2", "data.tokenizer=t.json", "data.validation=v", "evaluation.every_steps=3"},
      {"data.train=[{path = \"a\\\"b\", weight = 0.1}, \"c\"]", "recompute.stages=[\"full\"]",
       "parallel.partition=[6]"},
      {"precision.compute=bf16", "run.seed=9223372036854775807", "optimizer.epsilon=1e-300"}};
  for (const std::vector<std::string>& overrides : variants) {
    const Job job = job_of(overrides);
    const std::string text = to_toml(job);
    EXPECT_EQ(parse_job(text, "resolved", {}), job) << text;
    EXPECT_EQ(to_toml(parse_job(text, "resolved", {})), text);
  }
}

TEST(WriteJob, AVocabularyFromTheTokenizerStaysOpen) {
  std::string text = changed("vocab_size = 300\n", "");
  const Job job = parse_job(text, "job.toml", {"data.tokenizer=t.json"});
  EXPECT_EQ(parse_job(to_toml(job), "resolved", {}), job);
}

TEST(WriteJob, TheResolvedJobNamesEveryValue) {
  const std::string text = to_toml(job_of({}));
  for (const char* line : {"\nkv_heads = 4\n", "\ndata = 1\n", "\ndevice = \"cpu\"\n", "\nmin = 0.0001\n",
                           "\ndecay_steps = 100\n", "\nvocab_pad = 128\n", "\nnorm_epsilon = 1e-05\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(Difference, NamesKeysAndBothValues) {
  const std::vector<Difference> found =
      difference(job_of({}), job_of({"learning_rate.max=0.002", "data.validation=v"}));
  EXPECT_THAT(found, ElementsAre(Field(&Difference::key, "data.validation"),
                                 Field(&Difference::key, "learning_rate.max"),
                                 Field(&Difference::key, "learning_rate.min")));
  EXPECT_EQ(to_text(found),
            "  data.validation: none → \"v\"\n"
            "  learning_rate.max: 0.001 → 0.002\n"
            "  learning_rate.min: 0.0001 → 0.0002\n");
  EXPECT_THAT(difference(job_of({}), job_of({})), IsEmpty());
}

// A run that ends within its warm-up writes a job that is one, and may go on for longer.
TEST(WriteJob, AShortRunsJobIsRead) {
  const Job once = job_of({"run.steps=2", "learning_rate.warmup_steps=50"});
  EXPECT_EQ(to_toml(parse_job(to_toml(once), "written.toml", {})), to_toml(once));
  EXPECT_THAT(refused_on_resume(once, job_of({"run.steps=200", "learning_rate.warmup_steps=50"})), IsEmpty());
}

TEST(Difference, WhatMayChangeWhenARunGoesOn) {
  const Job stored = job_of({});
  EXPECT_THAT(refused_on_resume(stored, job_of({"run.steps=200", "log.every_steps=5", "recompute.mode=full",
                                                "parallel.threads=2", "checkpoint.every_steps=7",
                                                "run.resume=must", "run.max_wall_time=01:00:00"})),
              IsEmpty());
  // A decay that was given is part of the run; one that follows the steps follows them.
  EXPECT_THAT(refused_on_resume(stored, job_of({"run.steps=200", "learning_rate.decay_steps=150"})),
              ElementsAre(Field(&Difference::key, "learning_rate.decay_steps")));
  for (const char* change :
       {"run.seed=2", "model.dropout=0.1", "batch.micro=2", "optimizer.beta1=0.8", "precision.compute=bf16",
        "data.train=[\"other\"]", "learning_rate.warmup_steps=3", "numerics.on_nonfinite=skip"}) {
    EXPECT_FALSE(refused_on_resume(stored, job_of({change})).empty()) << change;
  }
}

TEST(JobFilePage, TheCommittedOneIsUpToDate) {
  std::ifstream in(std::string(PENSTOCK_SOURCE_DIR) + "/docs/job-file.md");
  ASSERT_TRUE(in) << "docs/job-file.md is missing";
  std::ostringstream committed;
  committed << in.rdbuf();
  EXPECT_EQ(committed.str(), job_file_page()) << "run: penstock job --docs > docs/job-file.md";
}

}  // namespace
}  // namespace penstock
