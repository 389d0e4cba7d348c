// Whole runs of a tiny model through the same function that `penstock train` calls.
#include "trainer/training.h"

#include <cmath>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/bpe_trainer.h"
#include "data/data_error.h"
#include "data/file_writer.h"
#include "data/tokenizer_json.h"
#include "kernels/transport/inproc/inproc_world.h"
#include "parallel/planner/plan.h"
#include "tests/trainer/tiny_training.h"
#include "trainer/backend.h"
#include "trainer/checkpoint/checkpoint_error.h"
#include "trainer/checkpoint/checkpoint_reader.h"
#include "trainer/corpus.h"
#include "trainer/inference.h"
#include "trainer/job/read_job.h"
#include "trainer/job_plan.h"
#include "trainer/memory_limit.h"
#include "trainer/resume.h"
#include "trainer/step_batches.h"

namespace penstock {
namespace {

using testing::HasSubstr;

TEST_F(TrainingTest, TwoRunsAreBitwiseEqualAndLearn) {
  ASSERT_EQ(train(job("one"), {}), ExitCode::finished);
  ASSERT_EQ(train(job("two"), {}), ExitCode::finished);
  expect_equal(open("one", 6), open("two", 6));
  const auto lines = metrics("one");
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_NEAR(lines.front()["loss"].get<double>(), std::log(60.0), 0.3) << "an untrained model knows nothing";
  EXPECT_LT(lines.back()["loss"].get<double>(), lines.front()["loss"].get<double>());
}

TEST_F(TrainingTest, AnotherSeedIsAnotherRun) {
  ASSERT_EQ(train(job("one"), {}), ExitCode::finished);
  ASSERT_EQ(train(job("two", {"run.seed=2"}), {}), ExitCode::finished);
  EXPECT_NE(metrics("one")[0]["loss"], metrics("two")[0]["loss"]);
}

TEST_F(TrainingTest, ThreadsRecomputationAndLogsDoNotChangeABit) {
  ASSERT_EQ(train(job("one"), {}), ExitCode::finished);
  for (const std::vector<std::string>& change : {std::vector<std::string>{"parallel.threads=3"},
                                                 {"recompute.mode=selective"},
                                                 {"recompute.mode=full"},
                                                 {"log.tensorboard=false", "evaluation.every_steps=2"}}) {
    const std::string name = "changed" + change.front();
    ASSERT_EQ(train(job(name, change), {}), ExitCode::finished);
    expect_equal(open("one", 6), open(name, 6));
  }
}

TEST_F(TrainingTest, AStoppedRunGoesOnBitwise) {
  ASSERT_EQ(train(job("straight"), {}), ExitCode::finished);
  const Job whole = job("broken", {"checkpoint.every_steps=2"});
  for (int attempt = 0; attempt < 5; ++attempt) {
    fs::create_directories(run("broken") / "control");
    std::ofstream(run("broken") / "control" / "stop").put('\n');
    ASSERT_EQ(train(whole, {}), ExitCode::stopped) << attempt;
    const auto status = nlohmann::json::parse(std::ifstream(run("broken") / "status.json"));
    EXPECT_EQ(status["step"], attempt + 1);
    EXPECT_EQ(status["state"], "stopped");
    EXPECT_EQ(status["exit_code"], 75);
  }
  ASSERT_EQ(train(whole, {}), ExitCode::finished);
  expect_equal(open("straight", 6), open("broken", 6));
  EXPECT_EQ(metrics("broken").size(), 6u);
}

TEST_F(TrainingTest, AFinishedRunSaysSoAndGoesOnWithMoreSteps) {
  ASSERT_EQ(train(job("straight", {"run.steps=8"}), {}), ExitCode::finished);
  ASSERT_EQ(train(job("grown"), {}), ExitCode::finished);
  ASSERT_EQ(train(job("grown"), {}), ExitCode::finished);
  EXPECT_EQ(metrics("grown").size(), 6u) << "nothing was trained again";
  ASSERT_EQ(train(job("grown", {"run.steps=8"}), {}), ExitCode::finished);
  expect_equal(open("straight", 8), open("grown", 8));
}

TEST_F(TrainingTest, AnotherJobIsRefusedWithTheDifferences) {
  ASSERT_EQ(train(job("run", {"run.steps=2"}), {}), ExitCode::finished);
  const Job changed = job("run", {"optimizer.beta1=0.8"});
  try {
    train(changed, {});
    FAIL() << "another optimizer went unnoticed";
  } catch (const ResumeError& error) {
    EXPECT_THAT(error.what(), HasSubstr("optimizer.beta1"));
    EXPECT_THAT(error.what(), HasSubstr("0.9"));
    EXPECT_THAT(error.what(), HasSubstr("0.8"));
    EXPECT_THAT(error.what(), HasSubstr("--accept-changes"));
  }
  TrainOptions accept;
  accept.accept_changes = true;
  EXPECT_EQ(train(changed, accept), ExitCode::finished);
}

TEST_F(TrainingTest, OtherDataUnderTheSameNameIsRefused) {
  ASSERT_EQ(train(job("run", {"run.steps=2"}), {}), ExitCode::finished);
  write_tokens("text", 3000);
  EXPECT_THROW(train(job("run"), {}), ResumeError);
}

TEST_F(TrainingTest, ResumeModes) {
  EXPECT_THROW(train(job("run", {"run.resume=must"}), {}), checkpoint::CheckpointError);
  ASSERT_EQ(train(job("run", {"run.resume=never", "run.steps=2"}), {}), ExitCode::finished);
  EXPECT_THROW(train(job("run", {"run.resume=never"}), {}), ResumeError);
  const std::string path = (run("run") / "checkpoints" / "step-00000002").string();
  ASSERT_EQ(train(job("branch", {fmt::format("run.resume='{}'", path)}), {}), ExitCode::finished);
  EXPECT_EQ(metrics("branch").size(), 4u) << "it went on from step 2";
}

TEST_F(TrainingTest, OnlyDamagedCheckpointsNeverMeanStepZero) {
  ASSERT_EQ(train(job("run", {"run.steps=2"}), {}), ExitCode::finished);
  const fs::path shard = run("run") / "checkpoints" / "step-00000002" / "shard-00000.safetensors";
  fs::resize_file(shard, fs::file_size(shard) - 1);
  EXPECT_THROW(train(job("run"), {}), checkpoint::CheckpointError);
}

TEST_F(TrainingTest, ADamagedCheckpointIsNamedAndTheOlderOneTaken) {
  ASSERT_EQ(train(job("straight"), {}), ExitCode::finished);
  ASSERT_EQ(train(job("run", {"run.steps=4", "checkpoint.every_steps=2"}), {}), ExitCode::finished);
  const fs::path shard = run("run") / "checkpoints" / "step-00000004" / "shard-00000.safetensors";
  std::fstream(shard, std::ios::in | std::ios::out).seekp(5000).put('!');
  ASSERT_EQ(train(job("run"), {}), ExitCode::finished);
  expect_equal(open("straight", 6), open("run", 6));
  std::stringstream log;
  log << std::ifstream(run("run") / "logs" / "rank-00000.log").rdbuf();
  EXPECT_THAT(log.str(), HasSubstr("step-00000004"));
  EXPECT_THAT(log.str(), HasSubstr("passed over"));
}

TEST_F(TrainingTest, InfinityStopsTheRunAndNamesTheUnit) {
  const Job wild =
      job("wild", {"learning_rate.max=1e30", "optimizer.clip_norm=0", "learning_rate.warmup_steps=0"});
  ASSERT_EQ(train(wild, {}), ExitCode::numerics);
  std::stringstream events;
  events << std::ifstream(run("wild") / "events.jsonl").rdbuf();
  EXPECT_THAT(events.str(), HasSubstr("\"nonfinite\""));
  EXPECT_THAT(events.str(),
              testing::AnyOf(HasSubstr("\"unit\":\"embedding\""), HasSubstr("\"unit\":\"attention_"),
                             HasSubstr("\"unit\":\"mlp_"), HasSubstr("\"unit\":\"head\"")));
  const auto status = nlohmann::json::parse(std::ifstream(run("wild") / "status.json"));
  EXPECT_EQ(status["exit_code"], 5);
}

TEST_F(TrainingTest, InfinityMayBeSkipped) {
  const Job wild = job("wild", {"learning_rate.max=1e30", "optimizer.clip_norm=0",
                                "learning_rate.warmup_steps=0", "numerics.on_nonfinite=skip"});
  EXPECT_EQ(train(wild, {}), ExitCode::finished);
}

TEST_F(TrainingTest, TheRunsAccountsEqualThePlan) {
  for (const std::vector<std::string>& ranks :
       {std::vector<std::string>{}, {"parallel.pipeline=2", "parallel.schedule=zbv", "parallel.chunks=2"}}) {
    const std::string name = fmt::format("run{}", ranks.size());
    const Job planned = job(name, ranks);
    Backend planning = make_backend(planned, 0);
    const PlannedJob decided = planned_job(planned, planning, nullptr);
    const runtime::PipelinePlan plan = runtime::plan_pipeline(decided.request);
    const auto expected = to_json(memory_report(decided.job, planning, plan));
    ASSERT_EQ(train(planned, {}), ExitCode::finished);
    const auto written = nlohmann::ordered_json::parse(std::ifstream(run(name) / "plan.json"));
    ASSERT_EQ(written["ranks"].size(), plan.ranks.size());
    transport::run_inproc(static_cast<int>(plan.ranks.size()), {}, [&](transport::World& world) {
      const transport::AbortOnUnwind abort(world);
      const auto& row = expected["ranks"][static_cast<size_t>(world.rank())];
      EXPECT_EQ(written["ranks"][static_cast<size_t>(world.rank())]["arenas"], row["arenas"]);
      Backend backend = make_backend(planned, world.rank());
      const runtime::PipelineEngine engine(*backend.device, backend.math, world, plan);
      size_t bytes = 0;
      for (int index = 0; index < arena_tag_count; ++index) {
        const auto tag = static_cast<ArenaTag>(index);
        const auto& arena = row["arenas"][std::string(name_of(tag))];
        if (arena["bytes"] == 0) continue;
        bytes += backend.device->arena(tag).used();
        EXPECT_EQ(backend.device->arena(tag).used(), arena["bytes"]) << name_of(tag);
        EXPECT_EQ(backend.device->arena(tag).allocations().size(), arena["allocations"].size())
            << name_of(tag);
      }
      EXPECT_EQ(bytes, row["device_bytes"]);
      EXPECT_GT(bytes, 100000u);
    });
  }
}

TEST_F(TrainingTest, PipelinesGiveTheBitsOfOneRank) {
  ASSERT_EQ(train(job("one", {"batch.global=8"}), {}), ExitCode::finished);
  const std::vector<std::vector<std::string>> pipelines{
      {"parallel.pipeline=2"},
      {"parallel.pipeline=3", "parallel.schedule=gpipe"},
      {"parallel.pipeline=4", "parallel.schedule=zb-h1", "recompute.mode=selective"},
      {"parallel.pipeline=2", "parallel.schedule=interleaved", "parallel.chunks=2"},
      {"parallel.pipeline=2", "parallel.schedule=zbv", "parallel.chunks=2", "recompute.mode=full"}};
  for (const auto& change : pipelines) {
    std::vector<std::string> settings = change;
    settings.push_back("batch.global=8");
    const std::string name = fmt::format("{}", fmt::join(change, "+"));
    ASSERT_EQ(train(job(name, settings), {}), ExitCode::finished) << name;
    expect_equal(open("one", 6), open(name, 6));
    for (size_t step = 0; step < 6; ++step) {
      EXPECT_EQ(metrics(name)[step]["loss"], metrics("one")[step]["loss"]) << name << " step " << step;
      EXPECT_EQ(metrics(name)[step]["grad_norm"], metrics("one")[step]["grad_norm"])
          << name << " step " << step;
    }
  }
}

TEST_F(TrainingTest, ReplicasGiveTheSameBitsForEveryPipeline) {
  ASSERT_EQ(train(job("flat", {"batch.global=8", "parallel.data=2"}), {}), ExitCode::finished);
  ASSERT_EQ(train(job("deep", {"batch.global=8", "parallel.data=2", "parallel.pipeline=2"}), {}),
            ExitCode::finished);
  expect_equal(open("flat", 6), open("deep", 6));
}

// Every way to sum replicas, through whole jobs: the same bits for every pipeline, and other bits than the
// default.
TEST_F(TrainingTest, EveryWayToSumReplicasGivesTheSameBitsForEveryPipeline) {
  const std::vector<std::vector<std::string>> ways{
      {"parallel.reduce_every=2"},
      {"precision.gradient_reduce=bf16"},
      {"precision.gradient_reduce=bf16", "parallel.gradient_sum=library"},
      {"precision.gradient_reduce=bf16", "parallel.reduce_every=1"},
      {"parallel.gradient_sum=library"},
      {"parallel.gradient_sum=library", "parallel.reduce_every=3"}};
  const auto norms_of = [&](const std::string& name) {
    std::vector<double> norms;
    for (const nlohmann::json& line : metrics(name)) norms.push_back(line["grad_norm"]);
    return norms;
  };
  for (const char* replicas : {"parallel.data=2", "parallel.data=3"}) {
    const std::vector<std::string> all{replicas, "batch.global=12", "batch.micro=1", "run.steps=3"};
    const std::string plain = fmt::format("plain+{}", replicas);
    ASSERT_EQ(train(job(plain, all), {}), ExitCode::finished);
    for (const std::vector<std::string>& way : ways) {
      // Each way with one of them: a whole job takes its time.
      const bool odd = (&way - ways.data()) % 2 == 1;
      if (odd == (std::string(replicas) == "parallel.data=2")) continue;
      const std::string name = fmt::format("{}+{}", replicas, fmt::join(way, "+"));
      SCOPED_TRACE(name);
      std::vector<std::string> settings = all;
      settings.insert(settings.end(), way.begin(), way.end());
      ASSERT_EQ(train(job(name, settings), {}), ExitCode::finished);
      // Buckets smaller than a matrix, and a multiple of nothing.
      settings.insert(settings.end(),
                      {"parallel.pipeline=2", "parallel.schedule=zb-h1", "parallel.bucket_mib=0.00123"});
      ASSERT_EQ(train(job(name + "+deep", settings), {}), ExitCode::finished);
      expect_equal(open(name, 3), open(name + "+deep", 3));
      const std::vector<double> norms = norms_of(name);
      const std::vector<double> wanted = norms_of(plain);
      EXPECT_NEAR(norms[0], wanted[0], 0.01 * wanted[0]);
      // Ranks of one process add in rank order: the library's sums are the ordered ones.
      const bool the_same = way == std::vector<std::string>{"parallel.gradient_sum=library"};
      EXPECT_EQ(norms == wanted, the_same);
    }
  }
}

TEST_F(TrainingTest, AnyTopologyGoesOnAsAnyOther) {
  ASSERT_EQ(train(job("straight", {"batch.global=8"}), {}), ExitCode::finished);
  const std::vector<std::vector<std::string>> legs{
      {"run.steps=2", "learning_rate.decay_steps=6", "parallel.pipeline=3"},
      {"run.steps=3", "learning_rate.decay_steps=6"},
      {"run.steps=5", "learning_rate.decay_steps=6", "parallel.pipeline=2", "parallel.schedule=zbv",
       "parallel.chunks=2"},
      {"run.steps=6", "learning_rate.decay_steps=6", "parallel.pipeline=2", "parallel.schedule=1f1b"}};
  for (std::vector<std::string> leg : legs) {
    leg.push_back("batch.global=8");
    ASSERT_EQ(train(job("travelled", leg), {}), ExitCode::finished);
  }
  expect_equal(open("straight", 6), open("travelled", 6));
}

TEST_F(TrainingTest, APipelineStopsEvaluatesAndGoesOn) {
  const std::vector<std::string> settings{"parallel.pipeline=2", "evaluation.every_steps=2",
                                          "evaluation.batches=3"};
  ASSERT_EQ(train(job("one", {"evaluation.every_steps=2", "evaluation.batches=3"}), {}), ExitCode::finished);
  const Job pipeline = job("two", settings);
  fs::create_directories(run("two") / "control");
  std::ofstream(run("two") / "control" / "stop").put('\n');
  ASSERT_EQ(train(pipeline, {}), ExitCode::stopped);
  ASSERT_EQ(train(pipeline, {}), ExitCode::finished);
  expect_equal(open("one", 6), open("two", 6));
  const auto evaluations = [&](const std::string& name) {
    std::vector<nlohmann::json> losses;
    std::ifstream in(run(name) / "events.jsonl");
    for (std::string line; std::getline(in, line);) {
      const auto event = nlohmann::json::parse(line);
      if (event["event"] == "evaluation") losses.push_back(event["loss"]);
    }
    return losses;
  };
  EXPECT_EQ(evaluations("one").size(), 3u);
  EXPECT_EQ(evaluations("one"), evaluations("two"));
}

TEST_F(TrainingTest, InfinityInAPipelineNamesTheUnitToo) {
  const Job wild = job("wild", {"learning_rate.max=1e30", "optimizer.clip_norm=0",
                                "learning_rate.warmup_steps=0", "parallel.pipeline=2"});
  EXPECT_EQ(train(wild, {}), ExitCode::numerics);
}

TEST_F(TrainingTest, MaskedDocumentsCountTheSameOverAnyPipeline) {
  const std::vector<std::string> settings{"batch.global=8", "parallel.data=2", "data.document_mask=true",
                                          "evaluation.every_steps=3", "evaluation.batches=1"};
  ASSERT_EQ(train(job("flat", settings), {}), ExitCode::finished);
  std::vector<std::string> deep = settings;
  deep.push_back("parallel.pipeline=2");
  ASSERT_EQ(train(job("deep", deep), {}), ExitCode::finished);
  expect_equal(open("flat", 6), open("deep", 6));
  for (size_t step = 0; step < 6; ++step) {
    EXPECT_EQ(metrics("flat")[step]["tokens"], metrics("deep")[step]["tokens"]);
    EXPECT_LE(metrics("flat")[step]["tokens"], (step + 1) * 8 * 16);
  }
  EXPECT_LT(metrics("flat")[5]["tokens"], 6 * 8 * 16) << "some samples cross a document border";
}

TEST_F(TrainingTest, MoreStagesThanUnitsAreRefused) {
  EXPECT_THROW(train(job("run", {"parallel.pipeline=7"}), {}), planner::PlanError);
}

TEST_F(TrainingTest, ARunThatWouldNotFitIsRefusedWithTheNumbers) {
  const Job tight = job("tight", {"parallel.memory_limit_gib=0.001"});
  try {
    train(tight, {});
    FAIL() << "the limit was ignored";
  } catch (const MemoryLimitError& error) {
    EXPECT_THAT(error.what(), HasSubstr("0.001"));
  }
  EXPECT_EQ(train(job("wide", {"parallel.memory_limit_gib=4.0", "run.steps=1"}), {}), ExitCode::finished);
}

TEST_F(TrainingTest, ARunTooLargeForTheMachineIsRefusedBeforeItTakesMemory) {
  // 64 Ki x 64 Ki matrices: each arena by itself would not fit either, but none may be tried.
  const std::vector<std::string> sizes{"model.hidden_size=65536", "model.layers=64"};
  try {
    train(job("huge", sizes), {});
    FAIL() << "a machine with terabytes of memory?";
  } catch (const MemoryLimitError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the run needs"));
    EXPECT_THAT(error.what(), HasSubstr("are available"));
  }
}

TEST_F(TrainingTest, TokensOfAnotherTokenizerAreRefused) {
  data::BpeTrainer trainer({.vocabulary = 257, .min_frequency = 2, .special = {"<|endoftext|>"}});
  trainer.add_text("in the beginning");
  const std::string path = (root / "tokenizer.json").string();
  const data::Tokenizer tokenizer(trainer.train({}));
  data::write_file(path, data::tokenizer_json(tokenizer));
  const std::vector<std::string> overrides{"data.tokenizer=" + path, "model.vocab_size=257", "run.steps=1"};
  // Whoever made the files did not say with what: nothing to compare.
  EXPECT_EQ(train(job("unknown", overrides), {}), ExitCode::finished);
  write_tokens("validation", 600, tokenizer.fingerprint());
  write_tokens("text", 4000, tokenizer.fingerprint());
  EXPECT_EQ(train(job("same", overrides), {}), ExitCode::finished);
  for (const char* other : {"text", "validation"}) {
    write_tokens(other, 4000, "0123456789abcdef");
    try {
      train(job(std::string("other-") + other, overrides), {});
      ADD_FAILURE() << other << " was taken";
    } catch (const data::DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr(std::string(other) + ".bin: found token ids of the tokenizer"));
      EXPECT_THAT(error.what(), HasSubstr("0123456789abcdef"));
      EXPECT_THAT(error.what(), HasSubstr(path));
    }
    write_tokens(other, 4000, tokenizer.fingerprint());
  }
}

TEST_F(TrainingTest, ASpikeOfTheLossStopsTheRunIfTheJobSaysSo) {
  // Losses that do not fall vary from batch to batch: with so small a limit any of them above the mean is a
  // spike.
  const std::vector<std::string> settings{"run.steps=30",
                                          "numerics.on_spike=stop",
                                          "numerics.spike_z=1e-6",
                                          "learning_rate.max=1e-12",
                                          "numerics.spike_window=8",
                                          "learning_rate.warmup_steps=0"};
  EXPECT_EQ(train(job("run", settings), {}), ExitCode::numerics);
  std::stringstream events;
  events << std::ifstream(run("run") / "events.jsonl").rdbuf();
  EXPECT_THAT(events.str(), HasSubstr("\"spike\""));
}

TEST_F(TrainingTest, DocumentsMayBeMasked) {
  ASSERT_EQ(train(job("open"), {}), ExitCode::finished);
  ASSERT_EQ(train(job("masked", {"data.document_mask=true"}), {}), ExitCode::finished);
  EXPECT_NE(metrics("open")[0]["loss"], metrics("masked")[0]["loss"]);
}

TEST_F(TrainingTest, TheResolvedJobReproducesTheRun) {
  ASSERT_EQ(train(job("one"), {}), ExitCode::finished);
  Job again = read_job(run("one") / "job.toml", {"run.name=again"});
  ASSERT_EQ(train(again, {}), ExitCode::finished);
  expect_equal(open("one", 6), open("again", 6));
}

TEST_F(TrainingTest, LlamaTrains) {
  Job llama = job("llama", {"model.family=llama", "model.kv_heads=2", "model.ffn_hidden_size=48",
                            "model.qk_norm=true", "precision.compute=fp32"});
  ASSERT_EQ(train(llama, {}), ExitCode::finished);
  EXPECT_LT(metrics("llama").back()["loss"].get<double>(), metrics("llama").front()["loss"].get<double>());
}

TEST_F(TrainingTest, ASavedModelIsLoadedForInference) {
  ASSERT_EQ(train(job("run"), {}), ExitCode::finished);
  std::vector<float> expected;
  for (const std::string pipeline : {"1", "2"}) {
    const Job asked = job("run", {"parallel.pipeline=" + pipeline, "batch.micro=1", "batch.global=1"});
    std::vector<float> logits;
    transport::run_inproc(static_cast<int>(asked.parallel.pipeline), {}, [&](transport::World& world) {
      const transport::AbortOnUnwind abort(world);
      const Inference model = open_inference(asked, "", world, true);
      EXPECT_EQ(model.step, 6);
      BatchSet set(model.job, 1, *model.backend.device);
      std::fill(set.batches()[0].tokens.begin(), set.batches()[0].tokens.end(), 5);
      std::iota(set.batches()[0].positions.begin(), set.batches()[0].positions.end(), 0);
      const auto row = model.engine->logits(set.bands()[0], 7);
      if (world.rank() == 0) logits.assign(row.begin(), row.end());
    });
    ASSERT_EQ(logits.size(), 60u);
    if (expected.empty()) expected = logits;
    EXPECT_EQ(logits, expected) << "pipeline of " << pipeline;
  }
  const auto open_job = [&](const Job& asked) {
    transport::run_inproc(1, {}, [&](transport::World& world) { open_inference(asked, "", world, false); });
  };
  EXPECT_THROW(open_job(job("run", {"model.layers=3"})), checkpoint::CheckpointError);
  EXPECT_THROW(open_job(job("none")), checkpoint::CheckpointError);
}

// Plans change no bit: a run may go on with another one.
TEST_F(TrainingTest, AutomaticPlansRunAndResume) {
  ASSERT_EQ(train(job("plain"), {}), ExitCode::finished);
  const std::vector<std::string> choices{"parallel.pipeline=2", "parallel.schedule=auto",
                                         "recompute.mode=auto"};
  std::vector<std::string> half = choices;
  half.emplace_back("run.steps=3");
  ASSERT_EQ(train(job("auto", half), {}), ExitCode::finished);
  const auto plan = nlohmann::json::parse(std::ifstream(run("auto") / "plan.json")).at("plan");
  EXPECT_EQ(plan.at("pipeline"), 2);
  for (const char* name : {"predicted_step_ms", "tokens_per_second", "micro_batch_latency_ms", "bubble_ratio",
                           "bubble_ratio_rank_span", "idle_ratio", "stage_imbalance", "slowest_stage",
                           "fill_ms", "drain_ms", "memory_peak_bytes"})
    EXPECT_TRUE(plan.at(name).is_number()) << name;
  const Job resolved = read_job(run("auto") / "job.toml", {}, {.ranks = 2, .cuda = false});
  EXPECT_FALSE(leaves_open(resolved));
  EXPECT_EQ(resolved.parallel.schedule, plan.at("schedule"));
  // The rest with a plan of its own.
  std::vector<std::string> rest = choices;
  rest.emplace_back("parallel.chunks=1");
  ASSERT_EQ(train(job("auto", rest), {}), ExitCode::finished);
  expect_equal(open("plain", 6), open("auto", 6));
}

}  // namespace
}  // namespace penstock
