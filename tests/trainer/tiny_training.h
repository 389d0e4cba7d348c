// Whole runs of a tiny model on a tiny text, in a folder of their own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "data/token_writer.h"
#include "kernels/transport/inproc/inproc_world.h"
#include "trainer/checkpoint/checkpoint_reader.h"
#include "trainer/job/read_job.h"
#include "trainer/stop_switch.h"
#include "trainer/training.h"

namespace penstock {

namespace fs = std::filesystem;

struct TrainingTest : testing::Test {
  fs::path root = fs::temp_directory_path() / fmt::format("penstock-training-{}", getpid());

  TrainingTest() {
    fs::remove_all(root);
    fs::create_directories(root);
    write_tokens("text", 4000);
    write_tokens("validation", 600);
  }
  ~TrainingTest() override { fs::remove_all(root); }

  // A text with something to learn: tokens count up by a step that changes with the document.
  void write_tokens(const std::string& name, int count, const std::string& tokenizer = "") const {
    data::TokenWriter writer((root / name).string(), 60, tokenizer);
    int32_t token = 1;
    for (int document = 0; count > 0; ++document) {
      std::vector<int32_t> tokens;
      for (int at = 0; at < 97 && count > 0; ++at, --count) {
        tokens.push_back(token);
        token = (token + 1 + document % 3) % 60;
      }
      writer.add(tokens);
      writer.end_document();
    }
    writer.finish();
  }

  // Trains on as many ranks as the job says, as threads of this process.
  static ExitCode train(const Job& job, const TrainOptions& options) {
    ExitCode code = ExitCode::internal_error;
    const auto ranks = static_cast<int>(job.parallel.pipeline * job.parallel.data);
    transport::run_inproc(ranks, {}, [&](transport::World& world) {
      const transport::AbortOnUnwind abort(world);
      std::optional<StopSwitch> stop;
      if (world.rank() == 0) {
        stop.emplace(fs::path(job.run.folder) / job.run.name / "control", std::nullopt);
      }
      const ExitCode mine = penstock::train(job, options, world, stop ? &*stop : nullptr);
      if (world.rank() == 0) code = mine;
    });
    return code;
  }

  Job job(const std::string& name, const std::vector<std::string>& overrides = {}) const {
    const std::string text = fmt::format(
        R"(
[run]
name = "{}"
folder = "{}"
steps = 6
[model]
family = "gpt2"
layers = 2
hidden_size = 32
heads = 4
sequence_length = 16
vocab_size = 60
[data]
train = ["{}"]
validation = "{}"
[batch]
global = 4
micro = 2
[learning_rate]
max = 1e-2
warmup_steps = 2
decay_style = "constant"
[log]
console = "quiet"
)",
        name, (root / "runs").string(), (root / "text").string(), (root / "validation").string());
    return parse_job(text, "test.toml", overrides);
  }

  fs::path run(const std::string& name) const { return root / "runs" / name; }
  checkpoint::Checkpoint open(const std::string& name, int step) const {
    return checkpoint::Checkpoint::open(
        (run(name) / "checkpoints" / fmt::format("step-{:08}", step)).string(), checkpoint::Depth::full);
  }

  std::vector<nlohmann::json> metrics(const std::string& name) const {
    std::ifstream in(run(name) / "metrics.jsonl");
    std::vector<nlohmann::json> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }

  std::vector<nlohmann::json> events(const std::string& name, const std::string& kind) const {
    std::ifstream in(run(name) / "events.jsonl");
    std::vector<nlohmann::json> found;
    for (std::string line; std::getline(in, line);) {
      const nlohmann::json event = nlohmann::json::parse(line);
      if (event["event"] == kind) found.push_back(event);
    }
    return found;
  }

  // Every bit of every tensor, and what continues the run, is the same.
  static void expect_equal(const checkpoint::Checkpoint& a, const checkpoint::Checkpoint& b) {
    expect_same_model(a, b);
    EXPECT_EQ(a.manifest().state, b.manifest().state);
    EXPECT_EQ(a.manifest().samples, b.manifest().samples);
  }

  // Every bit of every tensor.
  static void expect_same_model(const checkpoint::Checkpoint& a, const checkpoint::Checkpoint& b) {
    ASSERT_EQ(a.manifest().tensors.size(), b.manifest().tensors.size());
    ASSERT_GT(a.manifest().tensors.size(), 50u);
    for (const checkpoint::GlobalTensor& tensor : a.manifest().tensors) {
      const auto elements = static_cast<size_t>(tensor.shape.elements());
      std::vector<uint32_t> left(elements);
      std::vector<uint32_t> right(elements);
      a.read(tensor.name, tensor.dtype, 0, tensor.shape.elements(), left.data());
      b.read(tensor.name, tensor.dtype, 0, tensor.shape.elements(), right.data());
      EXPECT_EQ(left, right) << tensor.name;
    }
  }
};

}  // namespace penstock
