#include "trainer/hugging_face/import_job.h"

#include <fmt/format.h>

#include "data/data_error.h"
#include "trainer/job/job_keys.h"
#include "trainer/job/write_job.h"

namespace penstock::hugging_face {
namespace {

std::string quoted(const std::string& text) {
  return to_text(TomlNode::of(text));
}

}  // namespace

std::string job_file(const ModelSection& model, const std::filesystem::path& run,
                     const std::string& tokenizer, const std::string& origin) {
  Job job;
  job.model = model;
  std::string keys;
  const std::vector<SectionKeys> sections = keys_of(job);
  for (const Key& key : find_section(sections, "model")->keys) {
    const TomlNode value = key.value();
    if (value.kind != TomlNode::Kind::none) keys += fmt::format("{} = {}\n", key.name, to_text(value));
  }
  return fmt::format(
      R"(# Goes on from {}, which `penstock import` read into this run's checkpoints/step-00000000.
# [model] is that model's. Prepare data, and adapt the rest:
#   penstock data prepare --input TEXT... --tokenizer tokenizer.json --output data/corpus

[run]
name = {}
folder = {}
steps = 1000

[model]
{}
[data]
train = ["data/corpus"]
{}
[batch]
global = 8
micro = 1

[learning_rate]
max = 2e-5
warmup_steps = 100
)",
      origin, quoted(run.filename().string()),
      quoted(run.has_parent_path() ? run.parent_path().string() : "."), keys,
      tokenizer.empty() ? "" : fmt::format("tokenizer = {}\n", quoted(tokenizer)));
}

void check_length(const ModelConfig& config, int64_t sequence_length) {
  if (config.architecture != Architecture::gpt2 || sequence_length <= config.model.sequence_length) return;
  throw data::DataError(
      fmt::format("model.sequence_length = {}: the model has learned {} positions, and no more",
                  sequence_length, config.model.sequence_length));
}

ModelSection agree(Job& job, const ModelConfig& config, const std::string& job_name) {
  if (job.model.vocab_size == 0) job.model.vocab_size = config.model.vocab_size;
  ModelSection model = config.model;
  model.sequence_length = job.model.sequence_length;
  model.vocab_pad = job.model.vocab_pad;
  model.dropout = job.model.dropout;
  model.init_std = job.model.init_std;
  check_length(config, model.sequence_length);
  Job imported = job;
  imported.model = model;
  const auto differences = difference(job, imported);
  if (!differences.empty()) {
    throw data::DataError(
        fmt::format("{}: its model is not the one to import (the job's value → the model's):\n{}", job_name,
                    to_text(differences)));
  }
  return model;
}

}  // namespace penstock::hugging_face
