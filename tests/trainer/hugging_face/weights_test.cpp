// The weights' files: every tensor is there once, as the model has it, or is named.
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/file_writer.h"
#include "kernels/device/bfloat16.h"
#include "kernels/device/float16.h"
#include "tests/trainer/hugging_face/hf_folder.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/hugging_face/weights_folder.h"

namespace penstock::hugging_face {
namespace {

using checkpoint::StoredTensor;
using checkpoint::StoredType;
using testing::AllOf;
using testing::HasSubstr;

// A safetensors file whose tensors can be changed: name → type, shape, bytes.
struct Tensors {
  struct Entry {
    StoredTensor tensor;
    std::string bytes;
  };
  std::map<std::string, Entry> entries;

  explicit Tensors(const fs::path& path) {
    const checkpoint::SafetensorsFile file(path.string());
    for (const StoredTensor& tensor : file.tensors()) {
      const auto* bytes = reinterpret_cast<const char*>(file.bytes());
      entries[tensor.name] = {tensor, std::string(bytes + tensor.begin, bytes + tensor.end)};
    }
  }
  void write(const fs::path& path) const {
    std::vector<StoredTensor> tensors;
    for (const auto& [name, entry] : entries) {
      tensors.push_back(entry.tensor);
      tensors.back().name = name;
    }
    const auto layout = checkpoint::lay_out_safetensors(tensors, {});
    std::string text = layout.head;
    for (const StoredTensor& tensor : layout.tensors) text += entries.at(tensor.name).bytes;
    data::write_file(path.string(), text);
  }
  void rename(const std::string& from, const std::string& to) {
    entries[to] = entries.at(from);
    entries.erase(from);
  }
};

struct Weights : HuggingFaceTest {
  // The refusal of a fixture whose one file was changed.
  std::string refusal_of(const std::string& name, const std::function<void(Tensors&)>& change) const {
    const fs::path folder = copy(name);
    Tensors tensors(folder / "model.safetensors");
    change(tensors);
    tensors.write(folder / "model.safetensors");
    return refusal(folder);
  }
};

TEST_F(Weights, MissingExtraAndMisshapenTensorsAreNamed) {
  const std::string text = refusal_of("llama", [](Tensors& tensors) {
    tensors.entries.erase("model.layers.1.mlp.up_proj.weight");
    tensors.rename("model.norm.weight", "model.norm.gain");
    tensors.entries.at("model.layers.0.self_attn.q_proj.weight").tensor.shape = {12, 48};
    tensors.entries.at("model.layers.0.self_attn.k_proj.weight").tensor.type = StoredType::i32;
  });
  EXPECT_THAT(text, AllOf(HasSubstr("tensor model.layers.1.mlp.up_proj.weight: missing, expected (40, 24)"),
                          HasSubstr("tensor model.norm.weight: missing, expected (24)"),
                          HasSubstr("tensor model.norm.gain: found (24), expected no such tensor"),
                          HasSubstr("q_proj.weight: found (12, 48), expected (24, 24)"),
                          HasSubstr("k_proj.weight: found I32, expected F32, BF16 or F16")));
}

TEST_F(Weights, OtherVocabularyIsMisshapen) {
  const fs::path folder = copy("llama");
  edit_json(folder / "config.json", [](nlohmann::json& config) { config["vocab_size"] = 60; });
  EXPECT_THAT(refusal(folder), HasSubstr("model.embed_tokens.weight: found (61, 24), expected (60, 24)"));
}

TEST_F(Weights, NotANumberIsFound) {
  const std::string text = refusal_of("gpt2", [](Tensors& tensors) {
    const float bad = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(tensors.entries.at("transformer.h.1.mlp.c_fc.weight").bytes.data() + 8, &bad, sizeof bad);
  });
  EXPECT_THAT(text, AllOf(HasSubstr("nan in tensor transformer.h.1.mlp.c_fc.weight"), HasSubstr("byte ")));
}

TEST_F(Weights, NamesWithoutPrefixAndStoredMasksAreThoseOfOldFiles) {
  const fs::path folder = copy("gpt2");
  Tensors tensors(folder / "model.safetensors");
  const std::string prefix = "transformer.";
  const auto entries = tensors.entries;
  for (const auto& [name, entry] : entries) tensors.rename(name, name.substr(prefix.size()));
  tensors.entries["h.0.attn.bias"] = tensors.entries.at("h.0.ln_1.bias");
  tensors.entries["h.0.attn.masked_bias"] = tensors.entries.at("h.0.ln_1.bias");
  tensors.write(folder / "model.safetensors");
  const ImportResult old = import_into("old", folder);
  const ImportResult now = import_into("now", fixture("gpt2"));
  EXPECT_EQ(tests::get_file(old.checkpoint + "/shard-00000.safetensors"),
            tests::get_file(now.checkpoint + "/shard-00000.safetensors"));
}

TEST_F(Weights, ATiedHeadMayBeStoredIfItIsTheEmbedding) {
  const auto with_head = [](Tensors& tensors) {
    tensors.entries["lm_head.weight"] = tensors.entries.at("transformer.wte.weight");
  };
  EXPECT_EQ(refusal_of("gpt2", with_head), "imported");
  fs::remove_all(root / "refused");
  EXPECT_THAT(refusal_of("gpt2",
                         [&](Tensors& tensors) {
                           with_head(tensors);
                           tensors.entries.at("lm_head.weight").bytes[2] ^= 1;
                         }),
              HasSubstr("lm_head.weight and transformer.wte.weight differ"));
}

TEST_F(Weights, ABiasAfterAttentionMustBeZero) {
  const auto with_biases = [&](float output) {
    const fs::path folder = copy("qwen3");
    edit_json(folder / "config.json", [](nlohmann::json& config) { config["attention_bias"] = true; });
    fs::remove(folder / "model.safetensors.index.json");
    Tensors all(folder / "model-00001-of-00004.safetensors");
    for (int file = 2; file <= 4; ++file)
      all.entries.merge(Tensors(folder / fmt::format("model-0000{}-of-00004.safetensors", file)).entries);
    for (const int layer : {0, 1}) {
      const auto add = [&](const std::string& name, size_t size, float value) {
        StoredTensor tensor;
        tensor.shape = {size};
        const std::vector<float> values(size, value);
        all.entries[fmt::format("model.layers.{}.self_attn.{}.bias", layer, name)] = {
            tensor, std::string(reinterpret_cast<const char*>(values.data()), size * sizeof(float))};
      };
      add("q_proj", 32, 0.5F);
      add("k_proj", 16, 0.5F);
      add("v_proj", 16, 0.5F);
      add("o_proj", 24, output);
    }
    all.write(folder / "model.safetensors");
    return refusal(folder);
  };
  EXPECT_THAT(with_biases(0.25F),
              HasSubstr("attention_bias = true: tensor model.layers.0.self_attn.o_proj.bias is not"));
  EXPECT_EQ(with_biases(0.0F), "imported");
}

TEST_F(Weights, TheIndexMustBeRight) {
  const fs::path folder = copy("qwen2");
  const auto index = folder / "model.safetensors.index.json";
  edit_json(index, [](nlohmann::json& object) {
    object["weight_map"]["model.norm.weight"] = "model-00001-of-00003.safetensors";
  });
  EXPECT_THAT(refusal(folder),
              HasSubstr("model.norm.weight in model-00001-of-00003.safetensors, which does not"));
  edit_json(index,
            [](nlohmann::json& object) { object["weight_map"]["model.norm.weight"] = "../elsewhere"; });
  EXPECT_THAT(refusal(folder), HasSubstr("\"../elsewhere\" for tensor model.norm.weight"));
  fs::remove(index);
  EXPECT_THAT(refusal(folder), HasSubstr("no weights, expected model.safetensors"));
  std::ofstream(folder / "pytorch_model.bin") << "x";
  EXPECT_THAT(refusal(folder), HasSubstr("pytorch_model.bin, which holds code"));
}

TEST_F(Weights, ATensorTwiceIsRefused) {
  const fs::path folder = copy("qwen2");
  Tensors second(folder / "model-00002-of-00003.safetensors");
  const Tensors first(folder / "model-00001-of-00003.safetensors");
  second.entries.insert(*first.entries.begin());
  second.write(folder / "model-00002-of-00003.safetensors");
  EXPECT_THAT(refusal(folder),
              HasSubstr("which " + (folder / "model-00001-of-00003.safetensors").string() + " has too"));
}

TEST(HalfPrecision, EveryValueIsExact) {
  // The format's definition, in double: (−1)^s · 2^(e − 15) · 1.f, subnormals 2^−14 · 0.f.
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint32_t exponent = (bits >> 10) & 31;
    const double fraction = (bits & 1023) / 1024.0;
    const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
    float16 half;
    half.bits = static_cast<uint16_t>(bits);
    const auto value = static_cast<float>(half);
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(value), fraction != 0);
      EXPECT_EQ(std::isinf(value), fraction == 0);
    } else {
      const double wanted = exponent == 0 ? std::ldexp(fraction, -14)
                                          : std::ldexp(1 + fraction, static_cast<int>(exponent) - 15);
      ASSERT_EQ(static_cast<double>(value), sign * wanted) << bits;
      EXPECT_EQ(std::signbit(value), sign < 0);
    }
  }
}

}  // namespace
}  // namespace penstock::hugging_face
