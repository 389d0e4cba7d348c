#include "trainer/hugging_face/export_model.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "data/data_error.h"
#include "data/file_writer.h"
#include "data/mapped_file.h"
#include "data/tokenizer_json.h"
#include "kernels/device/bfloat16.h"
#include "model/parameter.h"
#include "trainer/checkpoint/checkpoint_error.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/hugging_face/output_folder.h"
#include "trainer/hugging_face/tensor_map.h"
#include "trainer/hugging_face/weight_files.h"
#include "trainer/hugging_face/write_config.h"
#include "trainer/job/read_job.h"
#include "trainer/model_state.h"

namespace penstock::hugging_face {
namespace {

using checkpoint::Checkpoint;
using checkpoint::StoredTensor;

constexpr int64_t block_elements = int64_t{1} << 22;

// Where a tensor's values lie in the checkpoint.
struct Origin {
  std::string parameter;  // "": zeros
  int64_t offset = 0;
  Part part;
};

// A tokenizer.json that this program reads, to be copied as it is.
struct TokenizerFile {
  std::string text;
  std::optional<int32_t> end_of_text;
};

std::optional<TokenizerFile> read_tokenizer(const std::string& asked, const Job& job) {
  const std::string path = asked.empty() ? job.data.tokenizer : asked;
  if (path.empty() || path == "none") return {};
  try {
    const data::MappedFile file(path);
    const data::Tokenizer tokenizer = data::parse_tokenizer(file.text(), path);
    if (tokenizer.size() > job.model.vocab_size) {
      throw data::DataError(data::Fault{path,
                                        {},
                                        fmt::format("{} tokens", tokenizer.size()),
                                        fmt::format("at most the model's {}", job.model.vocab_size),
                                        "name the tokenizer that the model was trained with"});
    }
    return TokenizerFile{std::string(file.text()), tokenizer.end_of_text()};
  } catch (const data::DataError& error) {
    throw data::DataError(fmt::format(
        "{} (--tokenizer FILE names another, --tokenizer none exports without one)", error.what()));
  }
}

class Exporter {
 public:
  Exporter(const Checkpoint& checkpoint, const ExportOptions& options)
      : checkpoint_(checkpoint),
        options_(options),
        job_(parse_job_values(checkpoint.manifest().job, "the checkpoint's job")) {
    const auto differences = checkpoint.differences(model_tensors(checkpoint, job_.model));
    if (differences.empty()) return;
    throw checkpoint::CheckpointError(
        fmt::format("{}: its tensors are not those of its own job's model:\n  {}", checkpoint.path(),
                    fmt::join(differences, "\n  ")));
  }

  ExportResult run() {
    const ModelSection& model = job_.model;
    const Architecture architecture = architecture_of(model);
    const std::optional<TokenizerFile> tokenizer = read_tokenizer(options_.tokenizer, job_);
    ConfigFacts facts;
    facts.dtype = options_.dtype;
    facts.positions = positions(architecture);
    if (tokenizer) facts.end_of_text = tokenizer->end_of_text;
    const std::string config = config_json(model, architecture, facts);
    const std::vector<WeightFile> files = spread(tensors(architecture), options_.shard_bytes);

    OutputFolder folder(options_.folder, options_.replace);
    write(folder, "config.json", config);
    if (tokenizer) {
      write(folder, "tokenizer.json", tokenizer->text);
      write(folder, "tokenizer_config.json", tokenizer_config_json(facts));
      if (facts.end_of_text)
        write(folder, "generation_config.json", generation_config_json(*facts.end_of_text));
    }
    for (const WeightFile& file : files) write_weights(folder, file);
    if (files.size() > 1) write(folder, "model.safetensors.index.json", index_json(files));
    folder.commit();
    result_.architecture = model_type(architecture);
    result_.parameters = model::parameter_count(model);
    return std::move(result_);
  }

 private:
  int64_t positions(Architecture architecture) const {
    if (options_.positions == 0) return job_.model.sequence_length;
    if (architecture == Architecture::gpt2 && options_.positions != job_.model.sequence_length) {
      throw data::DataError(
          fmt::format("--positions {}: the model has a learned position for each of {} tokens, and no more",
                      options_.positions, job_.model.sequence_length));
    }
    return options_.positions;
  }

  // In the model's order, and where each comes from.
  std::vector<StoredTensor> tensors(Architecture architecture) {
    std::vector<StoredTensor> all;
    const auto add = [&](Origin origin) {
      StoredTensor tensor;
      tensor.name = origin.part.name;
      tensor.type = checkpoint::stored_type(options_.dtype);
      tensor.shape = origin.part.stored_shape();
      result_.bytes += bytes_of(tensor);
      all.push_back(tensor);
      origins_.emplace(tensor.name, std::move(origin));
    };
    const TensorMap map = tensor_map(job_.model, architecture);
    for (const MappedParameter& parameter : map.parameters) {
      int64_t offset = 0;
      for (const Part& part : parameter.parts) {
        add({parameter.name, offset, part});
        offset += part.elements();
      }
    }
    for (const Part& part : map.zeros) add({"", 0, part});
    return all;
  }

  void write(const OutputFolder& folder, const std::string& name, const std::string& text) {
    data::write_file(folder.file(name), text);
    result_.files.push_back(name);
  }

  void write_weights(const OutputFolder& folder, const WeightFile& file) {
    const checkpoint::SafetensorsLayout layout = checkpoint::lay_out_safetensors(file.tensors, {});
    data::FileWriter writer(folder.file(file.name));
    writer.write(layout.head);
    for (const StoredTensor& tensor : layout.tensors) write_tensor(writer, origins_.at(tensor.name));
    writer.commit();
    result_.files.push_back(file.name);
  }

  // A block at a time, but for transposed matrices, whose rows lie apart.
  void write_tensor(data::FileWriter& writer, const Origin& origin) {
    const Part& part = origin.part;
    const int64_t block = part.transposed ? part.elements() : std::min(part.elements(), block_elements);
    values_.resize(static_cast<size_t>(block));
    for (int64_t first = 0; first < part.elements(); first += block) {
      const int64_t count = std::min(block, part.elements() - first);
      if (origin.parameter.empty()) {
        std::fill_n(values_.begin(), count, 0.0F);
      } else {
        checkpoint_.read(origin.parameter, DType::fp32, origin.offset + first, count, values_.data());
      }
      if (part.transposed) transpose(part);
      write_values(writer, static_cast<size_t>(count));
    }
  }

  void transpose(const Part& part) {
    std::vector<float> turned(values_.size());
    for (int64_t row = 0; row < part.rows; ++row) {
      for (int64_t column = 0; column < part.columns; ++column) {
        turned[static_cast<size_t>(column * part.rows + row)] =
            values_[static_cast<size_t>(row * part.columns + column)];
      }
    }
    values_ = std::move(turned);
  }

  void write_values(data::FileWriter& writer, size_t count) {
    if (options_.dtype == DType::fp32) {
      writer.write(values_.data(), count * sizeof(float));
      return;
    }
    rounded_.resize(count);
    std::transform(values_.begin(), values_.begin() + static_cast<std::ptrdiff_t>(count), rounded_.begin(),
                   [](float value) { return bfloat16(value); });
    writer.write(rounded_.data(), count * sizeof(bfloat16));
  }

  const Checkpoint& checkpoint_;
  const ExportOptions& options_;
  Job job_;
  std::map<std::string, Origin> origins_;
  std::vector<float> values_;
  std::vector<bfloat16> rounded_;
  ExportResult result_;
};

}  // namespace

ExportResult export_model(const Checkpoint& checkpoint, const ExportOptions& options) {
  return Exporter(checkpoint, options).run();
}

}  // namespace penstock::hugging_face
