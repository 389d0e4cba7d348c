#include "trainer/job/foreign_names.h"

#include <fstream>
#include <regex>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/job/example_job.h"
#include "trainer/job/job_keys.h"

namespace penstock {
namespace {

using testing::HasSubstr;

TEST(ForeignNames, AreExplainedInASection) {
  EXPECT_THAT(refusal(changed("layers = 2", "num_layers = 2\nlayers = 2")),
              HasSubstr("job.toml:7:1: model.num_layers: a name of Megatron-LM; here it is `model.layers`"));
  EXPECT_THAT(refusal(changed("layers = 2", "num-hidden-layers = 2\nlayers = 2")),
              HasSubstr("a name of Hugging Face; here it is `model.layers`"));
}

TEST(ForeignNames, AreExplainedOutsideAnySection) {
  EXPECT_THAT(refusal("pipeline_model_parallel_size = 4\n" + example_job()),
              HasSubstr("job.toml:1:1: pipeline_model_parallel_size: a name of Megatron-LM; here it is "
                        "`parallel.pipeline`"));
  EXPECT_THAT(refusal("train_micro_batch_size_per_gpu = 4\n" + example_job()),
              HasSubstr("here it is `batch.micro`"));
  EXPECT_THAT(refusal("steps = 4\n" + example_job()),
              HasSubstr("steps: a key outside any section; here it is `run.steps`"));
}

TEST(ForeignNames, AWholeForeignSectionIsExplainedKeyByKey) {
  const std::string message =
      refusal("[training]\nsteps = 10\nlocal_batch_size = 4\nseq_len = 8\n" + example_job());
  EXPECT_THAT(message,
              HasSubstr("job.toml:1:2: [training]: a name of torchtitan; here it is [run], [batch]"));
  EXPECT_THAT(message,
              HasSubstr("job.toml:2:1: training.steps: a name of torchtitan; here it is `run.steps`"));
  EXPECT_THAT(message, HasSubstr("job.toml:3:1: training.local_batch_size: "));
  EXPECT_THAT(
      message,
      HasSubstr("job.toml:4:1: training.seq_len: a name of torchtitan; here it is `model.sequence_length`"));
  EXPECT_THAT(message, HasSubstr("4 problems"));
}

TEST(ForeignNames, AKeyOfAnotherSectionIsSentHome) {
  EXPECT_THAT(refusal(changed("layers = 2", "layers = 2\nseed = 3")),
              HasSubstr("model.seed: not a key of this section; there is `run.seed`"));
}

// Every `section.key` that an answer names exists here.
TEST(ForeignNames, PointOnlyToKeysThatExist) {
  Job job;
  const std::vector<SectionKeys> sections = keys_of(job);
  int pointed = 0;
  for (const ForeignName& each : foreign_keys()) {
    static const std::regex reference("`([a-z0-9_]+)\\.([a-z0-9_]+)`");
    const std::string here = each.here;
    for (std::sregex_iterator at(here.begin(), here.end(), reference), end; at != end; ++at) {
      const SectionKeys* section = find_section(sections, (*at)[1]);
      const bool exists = section != nullptr && find_key(*section, (*at)[2]) != nullptr;
      EXPECT_TRUE(exists || (*at)[0] == "`metrics.jsonl`") << each.name << ": " << here;
      ++pointed;
    }
  }
  EXPECT_GT(pointed, 100);
}

// A foreign name that is a key of ours in the same place would never be looked up.
TEST(ForeignNames, AreNotOurOwn) {
  Job job;
  for (const SectionKeys& section : keys_of(job)) {
    for (const Key& key : section.keys) {
      const ForeignName* foreign = find_foreign_key("", section.name + "." + key.name);
      EXPECT_EQ(foreign, nullptr) << section.name << "." << key.name;
    }
    EXPECT_EQ(find_foreign_section(section.name), nullptr) << section.name;
  }
}

// What the page says of a name is what a job file with it is told.
TEST(ForeignNames, EveryOneIsRecognised) {
  for (const ForeignName& each : foreign_keys()) {
    const std::string name = each.name;
    const size_t dot = name.find('.');
    const std::string section = dot == std::string::npos ? "seldom_seen" : name.substr(0, dot);
    const ForeignName* found =
        find_foreign_key(section, dot == std::string::npos ? name : name.substr(dot + 1));
    ASSERT_NE(found, nullptr) << name;
    EXPECT_STREQ(found->here, each.here) << name << ": two trainers' name, and two answers";
    Job job;
    const std::vector<SectionKeys> sections = keys_of(job);
    // Within a section of ours; a name with a section of its own, within that.
    const std::string home = dot == std::string::npos ? "run" : section;
    const std::string text = fmt::format("[{}]\n{} = 1\n", home, name.substr(dot + 1));
    const std::string message =
        refusal(home == "run" && dot == std::string::npos ? changed("[run]\n", text) : text + example_job());
    EXPECT_THAT(message, HasSubstr(found->here)) << name << " of " << each.trainer;
    EXPECT_THAT(message, HasSubstr(found->trainer)) << name;
  }
  for (const ForeignName& each : foreign_sections()) {
    EXPECT_THAT(refusal(fmt::format("[{}]\nx = 1\n", each.name) + example_job()), HasSubstr(each.here));
  }
}

TEST(ForeignNames, ThePageIsTheTable) {
  std::ifstream file(std::string(PENSTOCK_SOURCE_DIR) + "/docs/coming-from.md");
  std::ostringstream committed;
  committed << file.rdbuf();
  EXPECT_EQ(committed.str(), foreign_names_page()) << "run: penstock job --coming-from > docs/coming-from.md";
}

}  // namespace
}  // namespace penstock
