#include "trainer/hugging_face/import_model.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "data/data_error.h"
#include "data/file_writer.h"
#include "data/mapped_file.h"
#include "data/tokenizer_json.h"
#include "model/parameter.h"
#include "trainer/checkpoint/checkpoint_reader.h"
#include "trainer/checkpoint/checkpoint_writer.h"
#include "trainer/checkpoint/room.h"
#include "trainer/checkpoint/step_folders.h"
#include "trainer/hugging_face/import_job.h"
#include "trainer/hugging_face/read_config.h"
#include "trainer/hugging_face/tensor_map.h"
#include "trainer/hugging_face/weights_folder.h"
#include "trainer/job/read_job.h"
#include "trainer/job/write_job.h"
#include "trainer/resume.h"
#include "trainer/run_folder.h"
#include "trainer/version/version.h"

namespace penstock::hugging_face {
namespace {

namespace fs = std::filesystem;

constexpr int64_t longest_default = 4096;
constexpr uint64_t shard_limit = uint64_t{1} << 30;  // values held at a time

std::vector<Part> expected_tensors(const TensorMap& map, const WeightsFolder& weights,
                                   const ModelSection& model) {
  std::vector<Part> parts;
  for (const MappedParameter& parameter : map.parameters)
    parts.insert(parts.end(), parameter.parts.begin(), parameter.parts.end());
  parts.insert(parts.end(), map.zeros.begin(), map.zeros.end());
  // A tied model's files may hold the head all the same.
  if (model.tie_embeddings && weights.has(head_name)) {
    parts.push_back(parts.front());
    parts.back().name = head_name;
  }
  return parts;
}

std::vector<float> values_of(const WeightsFolder& weights, const Part& part) {
  std::vector<float> values(static_cast<size_t>(part.elements()));
  weights.read(part, values.data());
  return values;
}

void check_tied(const WeightsFolder& weights, const Part& embedding) {
  Part head = embedding;
  head.name = head_name;
  if (values_of(weights, embedding) == values_of(weights, head)) return;
  throw data::DataError(fmt::format(
      "config.json: tie_word_embeddings = true, but tensors {} and {} differ; set the field to what the "
      "model was trained with",
      head.name, embedding.name));
}

void check_zeros(const WeightsFolder& weights, const std::vector<Part>& zeros) {
  for (const Part& part : zeros) {
    const std::vector<float> values = values_of(weights, part);
    if (std::all_of(values.begin(), values.end(), [](float value) { return value == 0.0F; })) continue;
    throw data::DataError(fmt::format(
        "config.json: attention_bias = true: tensor {} is not zero; supported: biases of queries, keys and "
        "values (the projection after attention has none)",
        part.name));
  }
}

class Importer {
 public:
  Importer(const std::string& folder, const ImportOptions& options)
      : options_(options),
        run_(fs::path(options.run).lexically_normal()),
        config_(read_config(folder + "/config.json", options.ignored)),
        weights_(folder, config_.architecture),
        map_(tensor_map(config_.model, config_.architecture)),
        origin_(folder) {
    if (!run_.has_filename()) run_ = run_.parent_path();  // "runs/x/"
    const std::vector<Part> expected = expected_tensors(map_, weights_, config_.model);
    const auto problems = weights_.problems(expected);
    if (!problems.empty()) {
      throw data::DataError(fmt::format("{}: its tensors are not those of the model in config.json:\n  {}",
                                        folder, fmt::join(problems, "\n  ")));
    }
    if (config_.model.tie_embeddings && weights_.has(head_name)) check_tied(weights_, expected.front());
    check_zeros(weights_, map_.zeros);
  }

  ImportResult run() {
    result_.notes = config_.notes;
    read_tokenizer();
    settle_job();
    const RunFolder held(run_);
    refuse_a_used_run(held);
    if (tokenizer_) data::write_file(tokenizer_path(), *tokenizer_);
    save(held.checkpoints().string());
    // Last: with a job file the run is complete.
    if (options_.job.empty()) data::write_file(held.job().string(), job_text_);
    result_.job = options_.job.empty() ? held.job().string() : options_.job;
    result_.architecture = model_type(config_.architecture);
    result_.types = weights_.types();
    result_.parameters = model::parameter_count(job_.model);
    return std::move(result_);
  }

 private:
  std::string tokenizer_path() const { return (run_ / "tokenizer.json").string(); }

  void read_tokenizer() {
    const std::string path = (fs::path(origin_) / "tokenizer.json").string();
    if (!fs::exists(path)) {
      result_.notes.emplace_back("no tokenizer.json: set data.tokenizer before text is read or written");
      return;
    }
    try {
      const data::MappedFile file(path);
      const data::Tokenizer tokenizer = data::parse_tokenizer(file.text(), path);
      if (tokenizer.size() > config_.model.vocab_size) {
        result_.notes.push_back(fmt::format("tokenizer.json has {} tokens, the model {}: not copied",
                                            tokenizer.size(), config_.model.vocab_size));
        return;
      }
      tokenizer_ = std::string(file.text());
    } catch (const data::DataError& error) {
      result_.notes.push_back(fmt::format("the tokenizer was not copied: {}", error.what()));
    }
  }

  void settle_job() {
    if (!options_.job.empty()) {
      Launch launch;
      launch.ranks = 0;
      job_ = read_job(options_.job, {}, launch);
      job_.model = agree(job_, config_, options_.job);
      return;
    }
    ModelSection model = config_.model;
    model.sequence_length = options_.sequence_length > 0 ? options_.sequence_length
                                                         : std::min(model.sequence_length, longest_default);
    check_length(config_, model.sequence_length);
    if (model.sequence_length < config_.model.sequence_length) {
      result_.notes.push_back(fmt::format("sequence_length is {}; the model is declared for {} tokens",
                                          model.sequence_length, config_.model.sequence_length));
    }
    job_text_ = job_file(model, run_, tokenizer_ ? tokenizer_path() : "", origin_);
    job_ = parse_job(job_text_, "the job of the imported model", {});
  }

  void refuse_a_used_run(const RunPaths& paths) const {
    const std::string checkpoints = paths.checkpoints().string();
    if (!checkpoint::list(checkpoints, checkpoint::Depth::quick).empty()) {
      throw ResumeError(
          fmt::format("{} holds checkpoints, which an import would replace; give another run", checkpoints));
    }
    if (options_.job.empty() && fs::exists(paths.job())) {
      throw ResumeError(fmt::format("{} is there already; give another run, or import for it with --job {}",
                                    paths.job().string(), paths.job().string()));
    }
  }

  void save(const std::string& checkpoints) {
    const checkpoint::Claim claim = checkpoint::claim_attempt(checkpoints);
    result_.notes.insert(result_.notes.end(), claim.notes.begin(), claim.notes.end());
    const TensorMap map = tensor_map(job_.model, config_.architecture);
    uint64_t bytes = 0;
    int64_t largest = 0;
    for (const MappedParameter& parameter : map.parameters) {
      bytes += 3 * sizeof(float) * static_cast<uint64_t>(parameter.elements);
      largest = std::max(largest, parameter.elements);
    }
    static_cast<void>(checkpoint::check_space(checkpoints, bytes, 0));
    zeros_.assign(static_cast<size_t>(largest), 0.0F);
    const checkpoint::CheckpointWriter writer(checkpoints, claim.attempt);
    writer.begin(0);
    try {
      writer.commit(manifest(), write_shards(writer, map));
    } catch (...) {
      writer.abandon(0);
      throw;
    }
    result_.checkpoint =
        checkpoints + "/" + checkpoint::name_of(checkpoint::StepFolder::Kind::complete, 0, 0);
  }

  std::vector<checkpoint::ShardEntry> write_shards(const checkpoint::CheckpointWriter& writer,
                                                   const TensorMap& map) {
    const std::vector<model::ParameterSpec> specs = model::model_parameters(job_.model);
    std::vector<checkpoint::ShardEntry> entries;
    std::vector<checkpoint::Source> sources;
    std::vector<std::vector<float>> values;  // what the sources point to
    uint64_t held = 0;
    for (size_t i = 0; i < specs.size(); ++i) {
      values.push_back(read(map.parameters[i]));
      held += values.back().size() * sizeof(float);
      const auto add = [&](const std::string& name, std::vector<float>& memory) {
        sources.push_back(checkpoint::whole(name, Tensor(memory.data(), DType::fp32, specs[i].shape)));
      };
      add(specs[i].name, values.back());
      add(specs[i].name + ".moment1", zeros_);
      add(specs[i].name + ".moment2", zeros_);
      if (held < shard_limit && i + 1 < specs.size()) continue;
      entries.push_back(writer.write(0, static_cast<int>(entries.size()), sources));
      sources.clear();
      values.clear();
      held = 0;
    }
    return entries;
  }

  // What no part fills pads the vocabulary. A job with shorter sequences takes the first learned positions.
  std::vector<float> read(const MappedParameter& parameter) const {
    std::vector<float> values(static_cast<size_t>(parameter.elements), 0.0F);
    float* at = values.data();
    for (const Part& part : parameter.parts) {
      weights_.read(part, at);
      at += part.elements();
    }
    return values;
  }

  checkpoint::Manifest manifest() const {
    checkpoint::Manifest manifest;
    manifest.job = to_toml(job_);
    manifest.program = fmt::format("penstock {} ({})", build_info().version, build_info().git_id);
    manifest.state["spike_losses"] = nlohmann::json::array();
    manifest.state[imported_state] = {{"model_type", model_type(config_.architecture)}, {"folder", origin_}};
    return manifest;
  }

  const ImportOptions& options_;
  fs::path run_;
  ModelConfig config_;
  WeightsFolder weights_;
  TensorMap map_;
  std::string origin_;
  std::optional<std::string> tokenizer_;
  std::string job_text_;
  Job job_;
  std::vector<float> zeros_;
  ImportResult result_;
};

}  // namespace

ImportResult import_model(const std::string& folder, const ImportOptions& options) {
  return Importer(folder, options).run();
}

}  // namespace penstock::hugging_face
