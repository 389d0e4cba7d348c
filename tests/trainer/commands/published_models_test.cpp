// Every configuration of a published model has as many parameters as published, and a plan that fits.
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "model/parameter.h"
#include "trainer/commands/plan_job.h"

namespace penstock::commands {
namespace {

struct PublishedModel {
  const char* name;
  int64_t parameters;  ///< published, embedding rows not padded
  const char* cluster = "h100-dgx";

  friend std::ostream& operator<<(std::ostream& out, const PublishedModel& each) { return out << each.name; }
};

class PublishedModels : public testing::TestWithParam<PublishedModel> {};

TEST_P(PublishedModels, HasItsParametersAndFits) {
  const std::string root = PENSTOCK_SOURCE_DIR;
  JobArguments job{fmt::format("{}/configs/{}.toml", root, GetParam().name), {}};
  const Job read = job.read(0);
  EXPECT_EQ(model::parameter_count(read.model), GetParam().parameters);
  PlanJobOptions options;
  options.cluster = fmt::format("{}/configs/clusters/{}.toml", root, GetParam().cluster);
  if (read.parallel.data == 0) job.overrides.emplace_back("parallel.data=1");
  std::ostringstream out;
  EXPECT_EQ(run_plan_job(job, options, true, out), 0);
  const nlohmann::json plan = nlohmann::json::parse(out.str()).at("plan");
  EXPECT_TRUE(plan.at("fits").get<bool>());
  EXPECT_GT(plan.at("predicted_step_ms").get<double>(), 0) << plan.dump(2);
}

INSTANTIATE_TEST_SUITE_P(Configs, PublishedModels,
                         testing::Values(PublishedModel{"gpt2-124m", 124'439'808},
                                         PublishedModel{"gpt2-355m", 354'823'168},
                                         PublishedModel{"gpt2-774m", 774'030'080},
                                         PublishedModel{"gpt2-1.5b", 1'557'611'200},
                                         PublishedModel{"llama-3.2-1b", 1'235'814'400},
                                         PublishedModel{"llama-3.2-3b", 3'212'749'824},
                                         PublishedModel{"llama-3.1-8b", 8'030'261'248},
                                         PublishedModel{"llama-3.1-70b", 70'553'706'496, "h200-dgx"},
                                         PublishedModel{"llama-3.1-405b", 405'853'388'800, "h200-dgx"}));

}  // namespace
}  // namespace penstock::commands
