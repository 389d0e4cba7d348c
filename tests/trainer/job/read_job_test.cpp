#include "trainer/job/read_job.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/job/example_job.h"

namespace penstock {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Job parse(const std::string& text, const std::vector<std::string>& overrides = {},
          const Launch& launch = {}) {
  return parse_job(text, "job.toml", overrides, launch);
}

TEST(ReadJob, FillsWhatFollowsFromOtherValues) {
  const Job job = parse(example_job());
  EXPECT_EQ(job.model.kv_heads, 4);
  EXPECT_EQ(job.model.head_dim, 16);
  EXPECT_EQ(job.model.ffn_hidden_size, 256);
  EXPECT_TRUE(job.model.tie_embeddings);
  EXPECT_TRUE(job.model.qkv_bias);
  EXPECT_EQ(job.model.padded_vocab_size(), 384);
  EXPECT_EQ(job.learning_rate.min, 0.1 * 0.001);
  EXPECT_EQ(job.learning_rate.decay_steps, 100);
  EXPECT_EQ(job.parallel.data, 1);
  EXPECT_EQ(job.parallel.device, DeviceChoice::cpu);
  EXPECT_EQ(job.precision.compute, Precision::fp32);
  EXPECT_EQ(job.precision.p2p, Precision::fp32);
  EXPECT_EQ(job.micro_batches(), 2);
  EXPECT_EQ(job.run.seed, 1u);
  EXPECT_EQ(job.run.folder, "runs");
  ASSERT_EQ(job.data.train.size(), 1u);
  EXPECT_EQ(job.data.train[0], (DataSource{"data/kjv", 1.0}));
}

TEST(ReadJob, LlamaHasOtherDefaults) {
  const Job job = parse(changed("\"gpt2\"", "\"llama\""), {"model.ffn_hidden_size=172", "model.kv_heads=2"});
  EXPECT_FALSE(job.model.tie_embeddings);
  EXPECT_FALSE(job.model.qkv_bias);
  EXPECT_EQ(job.model.ffn_hidden_size, 172);
  EXPECT_EQ(job.model.kv_heads, 2);
  EXPECT_THAT(refusal(changed("\"gpt2\"", "\"llama\"")),
              HasSubstr("model.ffn_hidden_size: required, but missing"));
}

TEST(ReadJob, WhatIsGivenIsNotDerived) {
  const Job job = parse(example_job() + "min = 0\ndecay_style = \"wsd\"\ndecay_steps = 0\n",
                        {"model.tie_embeddings=false", "model.head_dim=8", "precision.compute=bf16"});
  EXPECT_EQ(job.learning_rate.min, 0.0);
  EXPECT_EQ(job.learning_rate.decay_steps, 0);
  EXPECT_FALSE(job.model.tie_embeddings);
  EXPECT_EQ(job.model.head_dim, 8);
  EXPECT_EQ(job.precision.p2p, Precision::bf16);
}

TEST(ReadJob, WsdDecaysOverTheLastTenth) {
  EXPECT_EQ(parse(example_job() + "decay_style = \"wsd\"\n").learning_rate.decay_steps, 10);
}

TEST(ReadJob, TheTokenizerGivesTheVocabulary) {
  const std::string without = changed("vocab_size = 300\n", "");
  EXPECT_THAT(refusal(without), HasSubstr("model.vocab_size: required, but missing"));
  EXPECT_EQ(parse(without, {"data.tokenizer=tokenizer.json"}).model.vocab_size, 0);
}

TEST(ReadJob, PointsAtTheOffendingText) {
  EXPECT_EQ(refusal(changed("layers = 2", "layers = 0")),
            "job.toml:7:10: model.layers: expected integer from 1 to 65536, found 0 (integer)\n"
            "      7 | layers = 0\n"
            "        |          ^\n"
            "1 problem in the job\n");
}

TEST(ReadJob, ReportsAllProblemsAtOnceInOrder) {
  std::string text = changed("layers = 2", "layers = \"two\"");
  text.replace(text.find("micro = 4"), 9, "mikro = 4");
  text += "decay_style = \"cosin\"\n[typo]\nx = 1\n";
  const std::string message = refusal(text, {"log.every_steps=0", "novalue"});
  const std::vector<std::string> parts{
      "job.toml:7:10: model.layers: expected integer from 1 to 65536, found \"two\" (string)",
      "job.toml:16:1: [batch]: required, but missing: micro (integer from 1 to",
      "job.toml:18:1: batch.mikro: unknown key; did you mean `micro`?",
      "job.toml:22:15: learning_rate.decay_style: expected \"cosine\", \"wsd\", \"linear\" or \"constant\", "
      "found "
      "\"cosin\" (string); did you mean \"cosine\"?",
      "job.toml:23:2: [typo]: unknown section; there are run, model, data",
      "--set: log.every_steps: expected integer ≥ 1, found 0 (integer)\n  --set | log.every_steps=0\n",
      "--set: expected section.key=value, found no `=` in `novalue`",
      "7 problems in the job\n"};
  size_t at = 0;
  for (const std::string& part : parts) {
    const size_t found = message.find(part, at);
    ASSERT_NE(found, std::string::npos) << "not found, or not in order: " << part << "\n" << message;
    at = found;
  }
}

TEST(ReadJob, AnErrorHasTheExitCodeOfUsage) {
  EXPECT_EQ(static_cast<int>(JobError::exit_code()), 2);
  try {
    parse(changed("steps = 100", "steps = -1") + "x = 1\n");
    FAIL();
  } catch (const JobError& error) {
    EXPECT_EQ(error.problems(), 2u);
  }
}

TEST(ReadJob, MissingSectionsAreNamedWithTheirKeys) {
  const std::string message = refusal("");
  EXPECT_THAT(
      message,
      HasSubstr("job.toml: [run]: required, but missing: name (string, a file name), steps (integer ≥ 1)"));
  for (const char* section : {"[model]: ", "[data]: ", "[batch]: ", "[learning_rate]: "}) {
    EXPECT_THAT(message, HasSubstr(section));
  }
  EXPECT_THAT(message, HasSubstr("5 problems in the job"));
}

TEST(ReadJob, SyntaxErrorsHaveAPlace) {
  EXPECT_THAT(refusal("[run]\nname = \"x\nsteps = 1\n"),
              AllOf(StartsWith("job.toml:2:"), HasSubstr("not valid TOML")));
  EXPECT_THAT(refusal(example_job() + "max = 0.002\n"),
              AllOf(StartsWith("job.toml:22:"), HasSubstr("not valid TOML")));
  EXPECT_THAT(refusal(example_job() + "[run]\nseed = 2\n"), StartsWith("job.toml:22:"));
  EXPECT_THAT(refusal(changed("steps = 100", "steps = 99999999999999999999")), StartsWith("job.toml:3:"));
  EXPECT_THAT(refusal(std::string("\x7f\x45LF\x00\x01\xff\xfe", 8)), StartsWith("job.toml:1:"));
}

TEST(ReadJob, NothingUnprintableReachesTheTerminal) {
  const std::string message = refusal(std::string("[run]\nname = \"\x1b[2J\xff\xc2\x9b\x00", 20));
  for (const char c : message) {
    EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << static_cast<int>(c);
  }
  EXPECT_THAT(message, Not(HasSubstr("\xff")));
  EXPECT_THAT(message, Not(HasSubstr("\xc2\x9b")));
}

TEST(ReadJob, LongLinesAreCutAroundTheCaret) {
  const std::string message =
      refusal(changed("layers = 2", "rope_scaling = {" + std::string(5000, ' ') + "layers = 2}"));
  EXPECT_LT(message.size(), 1500u);
  EXPECT_THAT(message, HasSubstr("…"));
}

TEST(ReadJob, WindowsLineEndsAndUnicodeAreFine) {
  std::string text;
  for (const char c : example_job()) text += c == '\n' ? std::string("\r\n") : std::string(1, c);
  EXPECT_EQ(parse(text), parse(example_job()));
  EXPECT_EQ(parse(changed("\"small\"", "\"größe-\u2603\"")).run.name, "größe-\u2603");
  // Columns count characters, not bytes.
  const std::string message = refusal(changed("train = [\"data/kjv\"]", "train = [\"ä\", 5]"));
  EXPECT_THAT(message,
              HasSubstr("job.toml:14:15: data.train[1]: expected path or table {path, weight}, found 5"));
  EXPECT_THAT(message, HasSubstr("     14 | train = [\"ä\", 5]\n        |               ^\n"));
}

TEST(ReadJob, HostileDocumentsAreRefusedQuickly) {
  std::string dots = "a";
  for (int i = 0; i < 200000; ++i) dots += ".a";
  EXPECT_THAT(refusal(dots + " = 1\n"), HasSubstr("more than 64 dots"));
  EXPECT_THAT(refusal("[" + dots + "]\n"), HasSubstr("more than 64 dots"));
  EXPECT_THAT(refusal("x = {" + dots + " = 1}\n"), HasSubstr("more than 64 dots"));
  EXPECT_THAT(refusal("x = " + std::string(100000, '[') + "\n"), HasSubstr("not valid TOML"));
  EXPECT_THAT(refusal("x = " + std::string(100000, '{') + "\n"), HasSubstr("not valid TOML"));
  EXPECT_THAT(refusal("", {dots + "=1"}), HasSubstr("more than 64 dots"));
  EXPECT_THAT(refusal("", {"run.name={" + dots + "=1}"}), HasSubstr("more than 64 dots"));
  std::string keys = "[model]\n";
  for (int i = 0; i < 5000; ++i) keys += "key_number_" + std::to_string(i) + " = 1\n";
  EXPECT_THAT(refusal(keys), AllOf(HasSubstr("… and 4956 more\n5006 problems in the job"),
                                   StartsWith("job.toml:1:1: [model]")));
  // Dots in values and comments are no keys.
  EXPECT_EQ(refusal(example_job() + "# " + std::string(500, '.') + "\n"), "");
  EXPECT_EQ(refusal(changed("data/kjv", std::string(300, '.') + "/x")), "");
}

TEST(ReadJob, FilesThatAreNoJobs) {
  const auto message = [](const std::filesystem::path& file) -> std::string {
    try {
      read_job(file, {});
    } catch (const JobError& error) {
      return error.what();
    }
    return "";
  };
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "read_job_test";
  std::filesystem::create_directories(folder);
  EXPECT_THAT(message(folder), HasSubstr("expected a job file, found a folder"));
  EXPECT_THAT(message(folder / "absent.toml"),
              HasSubstr("absent.toml: cannot read the job file: No such file"));
  std::ofstream(folder / "large.toml") << std::string((4 << 20) + 1, '#');
  EXPECT_THAT(message(folder / "large.toml"), HasSubstr("found more than 4 MiB"));
  std::ofstream(folder / "megabyte.toml") << example_job() << "# " << std::string(1 << 20, 'x') << "\n";
  EXPECT_EQ(message(folder / "megabyte.toml"), "");
  std::ofstream(folder / "good.toml") << example_job();
  EXPECT_EQ(read_job(folder / "good.toml", {}), parse(example_job()));
  std::filesystem::remove_all(folder);
}

// A step that never comes is not traced in silence.
TEST(ReadJob, TracesOfStepsPastTheEndAreRefused) {
  const std::string text = example_job() + "[trace]\nsteps = [1, 100]\n";
  EXPECT_EQ(refusal(text), "");
  EXPECT_THAT(refusal(text, {"run.steps=99"}),
              HasSubstr("trace.steps: there is no step 100 to trace: run.steps = 99"));
  EXPECT_THAT(refusal(text, {"trace.steps=[7, 101, 300]"}),
              AllOf(HasSubstr("no step 101"), HasSubstr("no step 300"), HasSubstr("2 problems in the job")));
}

// Replicas that nobody asked for are explained where the batch does not fit them.
TEST(ReadJob, ReplicasThatAutoMadeAreExplained) {
  EXPECT_EQ(refusal(example_job(), {"parallel.pipeline=2"}, {4, false}), "");
  EXPECT_THAT(
      refusal(example_job(), {"parallel.pipeline=2"}, {16, false}),
      HasSubstr("batch.global: 8 sequences are no multiple of micro · data = 4 · 8 = 32; parallel.data = "
                "\"auto\" makes 8 replicas of all 16 ranks (those started, or the cluster's), 2 each: set "
                "parallel.data"));
  EXPECT_THAT(refusal(example_job(), {"parallel.data=8"}, {16, false}), Not(HasSubstr("auto")));
}

struct Wrong {
  const char* from;
  const char* to;
  const char* message;
};

class RefusedValues : public testing::TestWithParam<Wrong> {};

TEST_P(RefusedValues, SayWhatIsExpected) {
  EXPECT_THAT(refusal(changed(GetParam().from, GetParam().to)), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    ReadJob, RefusedValues,
    testing::Values(
        Wrong{"layers = 2", "layers = 2.0", "found 2.0 (float); write 2\n"},
        Wrong{"layers = 2", "layers = \"2\"", "found \"2\" (string); write it without quotes"},
        Wrong{"layers = 2", "layers = 9223372036854775807", "expected integer from 1 to 65536"},
        Wrong{"layers = 2", "layers = 2\ndropout = nan",
              "model.dropout: expected number in [0, 1), found nan"},
        Wrong{"layers = 2", "layers = 2\nrope_theta = inf",
              "model.rope_theta: expected number > 0, found inf"},
        Wrong{"layers = 2", "layers = 2\nqk_norm = \"true\"",
              "expected bool, found \"true\" (string); write it without"},
        Wrong{"\"small\"", "\"../up\"", "run.name: expected string, a file name, found \"../up\""},
        Wrong{"\"small\"", "\"..\"", "run.name: expected string, a file name"},
        Wrong{"\"small\"", "\"\"", "run.name: expected string, a file name, found \"\""},
        Wrong{"steps = 100", "steps = 100\nmax_wall_time = 01:00:00", "(date or time); write it in quotes"},
        Wrong{"steps = 100", "steps = 100\nmax_wall_time = \"1:60:00\"", "expected \"HH:MM:SS\""},
        Wrong{"steps = 100", "steps = 100\nseed = -1", "run.seed: expected integer ≥ 0, found -1"},
        Wrong{"[\"data/kjv\"]", "[]", "data.train: expected non-empty list of path or table {path, weight}"},
        Wrong{"[\"data/kjv\"]", "\"data/kjv\"", "found \"data/kjv\" (string)"},
        Wrong{"[\"data/kjv\"]", "[{weight = 1}]", "data.train[0].path: missing; path"},
        Wrong{"[\"data/kjv\"]", "[{path = \"a\", weigth = 1}]", "did you mean `weight`?"},
        Wrong{"[\"data/kjv\"]", "[{path = \"a\", weight = 1e300}, {path = \"b\", weight = 1e-300}]",
              "data.train: weight 1e-300 of source 1 is less than 1/65536"},
        Wrong{"[\"data/kjv\"]", "[{path = \"a\", weight = 0}]",
              "data.train[0].weight: expected number > 0, found 0"},
        Wrong{"heads = 4", "heads = 5", "model.hidden_size: 64 is no multiple of heads = 5"},
        Wrong{"heads = 4", "heads = 64",
              "hidden_size / heads = 64 / 64 = 1, but a head's width must be even"},
        Wrong{"heads = 4", "heads = 4\nhead_dim = 7", "model.head_dim: expected even integer"},
        Wrong{"heads = 4", "heads = 4\nkv_heads = 3", "model.kv_heads: 3 does not divide heads = 4"},
        Wrong{"heads = 4", "heads = 4\nkv_heads = 2",
              "family = \"gpt2\" has as many key/value heads as heads"},
        Wrong{"heads = 4", "heads = 4\nqk_norm = true", "model.qk_norm: only family = \"llama\" has it"},
        Wrong{"global = 8", "global = 9",
              "batch.global: 9 sequences are no multiple of micro · data = 4 · 1 = 4"},
        Wrong{"max = 0.001", "max = 0.001\nmin = 0.01", "learning_rate.min: 0.01 is above max = 0.001"},
        Wrong{"max = 0.001", "max = 0.001\n[evaluation]\nevery_steps = 5",
              "evaluation needs data.validation"},
        Wrong{"max = 0.001", "max = 0.001\n[recompute]\nstages = [\"full\", \"none\"]",
              "2 modes for pipeline · chunks = 1"},
        Wrong{"max = 0.001", "max = 0.001\n[parallel]\npartition = [5]",
              "the counts add up to 5, but the model has 6"},
        Wrong{"max = 0.001", "max = 0.001\n[parallel]\npartition = [0, 6]",
              "each an integer from 1 to 65536; found 0"},
        Wrong{"max = 0.001", "max = 0.001\n[comm]\ntransport = \"nccl\"\n[parallel]\ndevice = \"cpu\"",
              "comm.transport: \"nccl\" carries messages between GPUs, but parallel.device = \"cpu\""},
        Wrong{"max = 0.001", "max = 0.001\n[comm]\ntransport = \"nccl\"\n[parallel]\nshare_devices = true",
              "parallel.share_devices: NCCL takes one rank a GPU"},
        Wrong{"max = 0.001", "max = 0.001\n[comm]\ntransport = \"tcp\"\nbootstrap = \"mpi\"",
              "comm.bootstrap: it is how NCCL's ranks find each other"},
        Wrong{"max = 0.001", "max = 0.001\n[comm]\ntransport = \"inproc\"\nnccl = {NCCL_DEBUG = \"INFO\"}",
              "comm.nccl: this job does not use NCCL"},
        Wrong{"max = 0.001", "max = 0.001\n[comm]\nnccl = {LD_PRELOAD = \"x.so\"}",
              "comm.nccl: `LD_PRELOAD` is no variable of NCCL's"},
        Wrong{"max = 0.001", "max = 0.001\n[comm]\nnccl = {\"NCCL_A=B\" = \"1\"}",
              "comm.nccl: `NCCL_A=B` is no variable of NCCL's"},
        Wrong{"max = 0.001", "max = 0.001\n[numerics]\nmax_in_a_row = 0",
              "job.toml:23:16: numerics.max_in_a_row: expected integer ≥ 1, found 0"},
        Wrong{"max = 0.001", "max = 0.001\n[numerics]\non_nonfinite = \"rolback\"",
              "job.toml:23:16: numerics.on_nonfinite: expected"},
        Wrong{"max = 0.001", "max = 0.001\n[numerics]\nrecompute_check_every_steps = -1",
              "job.toml:23:31: numerics.recompute_check_every_steps: expected integer ≥ 0, found -1"},
        Wrong{"max = 0.001", "max = 0.001\n[numerics]\nreplica_check_every_steps = 2.5",
              "job.toml:23:29: numerics.replica_check_every_steps: expected integer"},
        Wrong{"micro = 4", "micro = 3",
              "batch.global: 8 sequences are no multiple of micro · data = 3 · 1 = 3"},
        Wrong{"[batch]", "[[batch]]", "batch: expected a section [batch], found ["}));

class NotInThisVersion : public testing::TestWithParam<const char*> {};

TEST_P(NotInThisVersion, IsRefused) {
  EXPECT_THAT(refusal(example_job(), {GetParam()}), HasSubstr("not in this version; "));
}

INSTANTIATE_TEST_SUITE_P(ReadJob, NotInThisVersion, testing::Values("precision.compute=fp8"));

TEST(ReadJob, DefaultsOfWhatIsNotInThisVersionAreAccepted) {
  EXPECT_EQ(
      refusal(example_job(),
              {"parallel.pipeline=1", "parallel.data=auto", "parallel.schedule=1f1b", "comm.transport=nccl",
               "comm.bootstrap=tcp", "comm.nccl={NCCL_DEBUG = \"WARN\"}", "trace.on_alarm=true",
               "watchdog.start_s=1", "parallel.memory_limit_gib=auto", "parallel.partition=[6]"}),
      "");
}

TEST(ReadJob, LaunchFillsReplicas) {
  const auto replicas = [](int64_t ranks, std::vector<std::string> overrides) {
    overrides.push_back("parallel.data=auto");
    return parse_job(example_job(), "job.toml", overrides, {.ranks = ranks, .cuda = false}).parallel.data;
  };
  EXPECT_EQ(replicas(2, {}), 2);
  EXPECT_EQ(replicas(4, {"parallel.pipeline=2"}), 2);
  EXPECT_EQ(replicas(1, {"parallel.pipeline=2"}), 1) << "no launcher: the pipeline alone";
  EXPECT_EQ(replicas(0, {}), 0) << "not known yet";
}

}  // namespace
}  // namespace penstock
