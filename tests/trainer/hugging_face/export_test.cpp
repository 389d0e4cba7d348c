// Exported folders hold the checkpoint's parameters as transformers stores them. What transformers computes
// from such a folder is compared in tests/program/hugging_face.py; here a model that transformers wrote must
// come back with the same bits.
#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/tokenizer_json.h"
#include "kernels/device/bfloat16.h"
#include "model/parameter.h"
#include "tests/trainer/hugging_face/hf_folder.h"
#include "trainer/checkpoint/checkpoint_reader.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/hugging_face/export_model.h"
#include "trainer/hugging_face/output_folder.h"
#include "trainer/hugging_face/read_config.h"
#include "trainer/hugging_face/weights_folder.h"

namespace penstock::hugging_face {
namespace {

using checkpoint::Checkpoint;
using checkpoint::Depth;
using testing::ElementsAre;
using testing::HasSubstr;

struct Export : HuggingFaceTest {
  Checkpoint imported(const std::string& name, const std::function<void(fs::path)>& change = {}) const {
    const fs::path folder = copy(name);
    if (change) change(folder);
    return Checkpoint::open(import_into("run-" + name, folder).checkpoint, Depth::full);
  }
  ExportOptions options(const std::string& folder = "out") const {
    ExportOptions options;
    options.folder = (root / folder).string();
    return options;
  }
  static std::vector<float> values(const WeightsFolder& weights, const Part& part) {
    std::vector<float> values(static_cast<size_t>(part.elements()));
    weights.read(part, values.data());
    return values;
  }
  static std::vector<Part> parts_of(const ModelConfig& config) {
    std::vector<Part> parts;
    for (const MappedParameter& parameter : tensor_map(config.model, config.architecture).parameters)
      parts.insert(parts.end(), parameter.parts.begin(), parameter.parts.end());
    return parts;
  }
};

struct EveryExport : Export, testing::WithParamInterface<const char*> {};

TEST_P(EveryExport, GivesBackWhatWasImported) {
  const Checkpoint checkpoint = imported(GetParam());
  export_model(checkpoint, options());
  const ModelConfig before = read_config((fixture(GetParam()) / "config.json").string(), {});
  const ModelConfig after = read_config((root / "out/config.json").string(), {});
  EXPECT_EQ(after.architecture, before.architecture);
  EXPECT_EQ(after.model, before.model);
  const WeightsFolder theirs(fixture(GetParam()).string(), before.architecture);
  const WeightsFolder ours((root / "out").string(), before.architecture);
  const std::vector<Part> parts = parts_of(before);
  EXPECT_THAT(ours.problems(parts), ElementsAre());
  for (const Part& part : parts) EXPECT_EQ(values(ours, part), values(theirs, part)) << part.name;
  EXPECT_EQ(ours.types(), "F32");
}

INSTANTIATE_TEST_SUITE_P(Models, EveryExport, fixture_names, name_of_fixture);

TEST_F(Export, RoundsToBfloat16) {
  const Checkpoint checkpoint = imported("gpt2");
  ExportOptions to = options();
  to.dtype = DType::bf16;
  export_model(checkpoint, to);
  const ModelConfig config = read_config((root / "out/config.json").string(), {});
  EXPECT_EQ(json_in(root / "out/config.json").at("torch_dtype"), "bfloat16");
  const WeightsFolder exact(fixture("gpt2").string(), Architecture::gpt2);
  const WeightsFolder rounded((root / "out").string(), Architecture::gpt2);
  EXPECT_EQ(rounded.types(), "BF16");
  for (const Part& part : parts_of(config)) {
    std::vector<float> wanted = values(exact, part);
    for (float& value : wanted) value = stored<bfloat16>(value);
    EXPECT_EQ(values(rounded, part), wanted) << part.name;
  }
}

TEST_F(Export, ShardsKeepToTheLimitAndTheIndexNamesThem) {
  const Checkpoint checkpoint = imported("llama");
  ExportOptions to = options();
  to.shard_bytes = 12000;
  const ExportResult result = export_model(checkpoint, to);
  const nlohmann::json index = json_in(root / "out/model.safetensors.index.json");
  uint64_t total = 0;
  std::map<std::string, std::string> found;
  int files = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(root / "out")) {
    if (entry.path().extension() != ".safetensors") continue;
    ++files;
    const checkpoint::SafetensorsFile file(entry.path().string());
    uint64_t bytes = 0;
    for (const checkpoint::StoredTensor& tensor : file.tensors()) {
      bytes += tensor.end - tensor.begin;
      found[tensor.name] = entry.path().filename().string();
    }
    EXPECT_LE(bytes, 12000U) << entry.path();
    total += bytes;
  }
  EXPECT_GE(files, 4);
  EXPECT_EQ(index.at("weight_map"), nlohmann::json(found));
  EXPECT_EQ(index.at("metadata").at("total_size"), total);
  EXPECT_EQ(result.bytes, total);
  EXPECT_TRUE(fs::exists(root / fmt::format("out/model-00001-of-{:05}.safetensors", files)));
  to.replace = true;
  to.shard_bytes = 1;  // a tensor each
  EXPECT_EQ(export_model(checkpoint, to).files.size(), found.size() + 2);
}

TEST_F(Export, ReplacesOnlyModelsAndOnlyOnRequest) {
  const Checkpoint checkpoint = imported("gpt2");
  fs::create_directories(root / "out");
  export_model(checkpoint, options());  // an empty folder is none
  const std::string first = tests::get_file(root / "out/model.safetensors");
  const auto refusal_of = [&](const ExportOptions& to) {
    return tests::message_of<data::WriteError>([&] { export_model(checkpoint, to); });
  };
  ExportOptions to = options();
  EXPECT_THAT(refusal_of(to), HasSubstr("an exported model, expected no folder, or an empty one"));
  EXPECT_EQ(tests::get_file(root / "out/model.safetensors"), first);
  to.replace = true;
  to.dtype = DType::bf16;
  export_model(checkpoint, to);
  EXPECT_NE(tests::get_file(root / "out/model.safetensors"), first);
  EXPECT_FALSE(fs::exists(root / "out.partial"));
  std::ofstream(root / "out/thesis.tex") << "years";
  EXPECT_THAT(refusal_of(to), HasSubstr("thesis.tex"));
  EXPECT_EQ(tests::get_file(root / "out/thesis.tex"), "years");
  to.folder = (root / "out/config.json").string();
  EXPECT_THAT(refusal_of(to), HasSubstr("a file, expected a folder"));
}

TEST_F(Export, WhatAKilledExportLeftIsWrittenOver) {
  const Checkpoint checkpoint = imported("gpt2");
  fs::create_directories(root / "out.partial");
  std::ofstream(root / "out.partial/model-00001-of-00009.safetensors.partial") << "half";
  export_model(checkpoint, options());
  EXPECT_FALSE(fs::exists(root / "out.partial"));
  EXPECT_FALSE(fs::exists(root / "out/model-00001-of-00009.safetensors.partial"));
}

TEST_F(Export, AFailureLeavesNothing) {
  const Checkpoint checkpoint = imported("gpt2");
  {
    const OutputFolder folder((root / "out").string(), false);
    std::ofstream(folder.file("config.json")) << "{}";
    EXPECT_TRUE(fs::exists(root / "out.partial/config.json"));
  }
  EXPECT_FALSE(fs::exists(root / "out.partial"));
  EXPECT_FALSE(fs::exists(root / "out"));
}

TEST_F(Export, TheTokenizerComesAlong) {
  data::Vocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte) vocabulary.tokens.emplace_back(1, static_cast<char>(byte));
  vocabulary.tokens.emplace_back(data::end_of_text_name);
  vocabulary.special.push_back({256, data::end_of_text_name});
  const data::Tokenizer tokenizer(vocabulary);
  const auto path = (root / "tokenizer.json").string();
  data::save_tokenizer(tokenizer, path);
  const Checkpoint checkpoint = imported("llama");  // of 61 tokens
  ExportOptions to = options();
  to.tokenizer = path;
  EXPECT_THAT(tests::message_of<data::DataError>([&] { export_model(checkpoint, to); }),
              HasSubstr("257 tokens, expected at most the model's 61"));
  EXPECT_FALSE(fs::exists(root / "out"));
  // A model with tokens to spare, as its folder says, imported with its tokenizer.
  const auto widen = [&](const fs::path& folder) {
    edit_json(folder / "config.json", [](nlohmann::json& config) {
      config["n_embd"] = 4;
      config["n_head"] = 2;
      config["n_inner"] = 4;
      config["n_layer"] = 1;
      config["vocab_size"] = 300;
    });
    const ModelConfig config = read_config((folder / "config.json").string(), {});
    std::vector<checkpoint::StoredTensor> tensors;
    for (const Part& part : parts_of(config)) {
      checkpoint::StoredTensor tensor;
      tensor.name = part.name;
      tensor.shape = part.stored_shape();
      tensors.push_back(tensor);
    }
    const auto layout = checkpoint::lay_out_safetensors(tensors, {});
    std::ofstream out(folder / "model.safetensors", std::ios::binary);
    out << layout.head << std::string(layout.file_bytes - layout.head.size(), '\0');
    fs::copy(path, folder / "tokenizer.json");
  };
  const Checkpoint wide = imported("gpt2", widen);
  export_model(wide, options());
  EXPECT_EQ(tests::get_file(root / "out/tokenizer.json"), tests::get_file(path));
  EXPECT_EQ(json_in(root / "out/config.json").at("eos_token_id"), 256);
  EXPECT_EQ(json_in(root / "out/generation_config.json").at("eos_token_id"), 256);
  EXPECT_EQ(json_in(root / "out/tokenizer_config.json").at("eos_token"), "<|endoftext|>");
  ExportOptions without = options("bare");
  without.tokenizer = "none";
  EXPECT_THAT(export_model(wide, without).files, ElementsAre("config.json", "model.safetensors"));
  EXPECT_TRUE(json_in(root / "bare/config.json").at("eos_token_id").is_null());
}

TEST_F(Export, PositionsAreDeclaredOnRequest) {
  ExportOptions to = options();
  to.positions = 131072;
  export_model(imported("llama"), to);
  EXPECT_EQ(json_in(root / "out/config.json").at("max_position_embeddings"), 131072);
  to.folder = (root / "gpt2").string();
  EXPECT_THAT(tests::message_of<data::DataError>([&] { export_model(imported("gpt2"), to); }),
              HasSubstr("a learned position for each of 32 tokens"));
}

TEST(TensorMap, EveryShapeOfModelHasATensorForEveryParameter) {
  ModelSection model;
  model.layers = 2;
  model.hidden_size = 16;
  model.heads = 4;
  model.kv_heads = 2;
  model.head_dim = 6;
  model.ffn_hidden_size = 20;
  model.sequence_length = 8;
  model.vocab_size = 50;
  for (int bits = 0; bits < 16; ++bits) {
    model.family = (bits & 1) != 0 ? Family::llama : Family::gpt2;
    model.qkv_bias = (bits & 2) != 0;
    model.qk_norm = (bits & 4) != 0 && model.family == Family::llama;
    model.tie_embeddings = (bits & 8) != 0;
    const Architecture architecture = architecture_of(model);
    const TensorMap map = tensor_map(model, architecture);
    const auto specs = model::model_parameters(model);
    ASSERT_EQ(map.parameters.size(), specs.size());
    std::set<std::string> names;
    int64_t values = 0;
    for (size_t i = 0; i < specs.size(); ++i) {
      EXPECT_EQ(map.parameters[i].name, specs[i].name);
      int64_t elements = 0;
      for (const Part& part : map.parameters[i].parts) {
        EXPECT_TRUE(names.insert(part.name).second) << part.name << " twice";
        elements += part.elements();
        EXPECT_EQ(part.is_vector, specs[i].shape.rank == 1) << part.name;
        EXPECT_EQ(part.columns, part.is_vector ? 1 : specs[i].shape[1]) << part.name;
      }
      EXPECT_TRUE(specs[i].vocab_rows >= 0 || elements == specs[i].shape.elements()) << specs[i].name;
      values += elements;
    }
    EXPECT_EQ(values, model::parameter_count(model)) << bits;
    const bool lacks_biases =
        model.family == Family::gpt2 ? !model.qkv_bias : model.qkv_bias && model.qk_norm;
    EXPECT_EQ(map.zeros.empty(), !lacks_biases) << bits;
  }
}

}  // namespace
}  // namespace penstock::hugging_face
