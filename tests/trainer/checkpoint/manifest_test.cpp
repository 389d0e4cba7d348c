// The manifest's own rules, with a right hash each time: what a later or broken program might write.
#include "trainer/checkpoint/manifest.h"

#include <cmath>
#include <functional>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/content_hash.h"
#include "kernels/device/error.h"
#include "trainer/checkpoint/checkpoint_error.h"

namespace penstock::checkpoint {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

Manifest example() {
  Manifest manifest;
  manifest.step = 100;
  manifest.attempt = 3;
  manifest.samples = 1200;
  manifest.job = "[run]\nname = \"x\" # \"quotes\", \u00fcml\u00e4ut\n";
  manifest.state["loss_scale"] = 0.1;
  manifest.shards = {{"shard-00000.safetensors", 132, 100, "0123456789abcdef"}};
  GlobalTensor tensor;
  tensor.name = "w";
  tensor.shape = {2, 4};
  tensor.pieces = {{0, 0, 3, 100, "aa"}, {0, 3, 5, 112, "bb"}};
  manifest.tensors.push_back(tensor);
  return manifest;
}

std::string with_right_hash(const std::string& body) {
  return "{\"xxh3\": \"" + data::hash_hex(data::hash_bytes(body.data(), body.size())) +
         "\",\n\"manifest\": " + body + "}\n";
}

std::string refusal(const std::string& text) {
  try {
    static_cast<void>(manifest_from_text("FILE", text));
    return "";
  } catch (const CheckpointError& error) {
    return error.what();
  }
}

TEST(Manifest, ComesBackAsItWentIn) {
  const Manifest manifest = example();
  const std::string text = to_text(manifest);
  const Manifest back = manifest_from_text("FILE", text);
  EXPECT_EQ(to_text(back), text);
  EXPECT_EQ(back.job, manifest.job);
  EXPECT_EQ(back.state, manifest.state);
  ASSERT_EQ(back.tensors.size(), 1u);
  EXPECT_EQ(back.tensors[0].shape, manifest.tensors[0].shape);
  EXPECT_EQ(back.tensors[0].pieces[1].begin, 112u);
  EXPECT_EQ(back.shards[0].head_hash, manifest.shards[0].head_hash);
  EXPECT_EQ(json::parse(text).at("manifest").at("step"), 100);  // the whole is JSON for any other reader
}

TEST(Manifest, StateThatJsonWouldChangeIsRefused) {
  for (const double value : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    Manifest manifest = example();
    manifest.state["mean"] = value;
    EXPECT_THROW(to_text(manifest), UsageError);
  }
  Manifest manifest = example();
  manifest.state["values"] = {5e-324, 1.7976931348623157e308, -0.0, 0.1,
                              std::numeric_limits<uint64_t>::max()};
  const auto back = manifest_from_text("FILE", to_text(manifest)).state.at("values");
  EXPECT_EQ(back, manifest.state.at("values"));
  EXPECT_TRUE(std::signbit(back[2].get<double>()));
  manifest.job = "\xff";
  EXPECT_THROW(to_text(manifest), UsageError);
}

TEST(Manifest, EveryChangedByteIsFound) {
  const std::string text = to_text(example());
  for (size_t at = 0; at < text.size(); ++at) {
    for (const int bit : {0, 5}) {
      std::string damaged = text;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      ASSERT_NE(refusal(damaged), "") << at;
    }
    ASSERT_NE(refusal(text.substr(0, at)), "") << at;
  }
  EXPECT_EQ(refusal(text), "");
}

TEST(Manifest, EachWrongValueIsRefusedByName) {
  struct Wrong {
    const char* kind;
    std::function<void(json&)> change;
    const char* words;
  };
  const std::vector<Wrong> wrong{
      {"later format", [](json& m) { m["format"] = 2; }, "found format 2, expected 1"},
      {"no step", [](json& m) { m.erase("step"); }, "key 'step' not found"},
      {"negative step", [](json& m) { m["step"] = -1; }, "found step = -1, expected a count"},
      {"step beyond 63 bits", [](json& m) { m["step"] = uint64_t{1} << 63; }, "expected a count"},
      {"step is a real", [](json& m) { m["step"] = 1e300; }, "expected a count"},
      {"job is a number", [](json& m) { m["job"] = 3; }, "type must be string"},
      {"state is a list", [](json& m) { m["state"] = json::array(); }, "type must be object"},
      {"shards are a number", [](json& m) { m["shards"] = 3; }, "cannot be read"},
      {"shard elsewhere", [](json& m) { m["shards"][0]["file"] = "../x"; }, "shard \"../x\""},
      {"shard in a folder", [](json& m) { m["shards"][0]["file"] = "a/b"; }, "shard \"a/b\""},
      {"head beyond shard", [](json& m) { m["shards"][0]["head_bytes"] = 133; }, "a head of 133 bytes"},
      {"unknown dtype", [](json& m) { m["tensors"][0]["dtype"] = "F4"; }, "tensor w of \"F4\""},
      {"dtype no tensor has", [](json& m) { m["tensors"][0]["dtype"] = "BOOL"; }, "tensor w of \"BOOL\""},
      {"five extents",
       [](json& m) {
         m["tensors"][0]["shape"] = {1, 1, 2, 2, 2};
       },
       "up to four extents"},
      {"negative extent",
       [](json& m) {
         m["tensors"][0]["shape"] = {-2, 4};
       },
       "extents whose bytes fit"},
      {"huge extent",
       [](json& m) {
         m["tensors"][0]["shape"] = {uint64_t{1} << 62, 8};
       },
       "extents whose bytes fit"},
      {"hidden huge extent",
       [](json& m) {
         m["tensors"][0]["shape"] = {0, ~uint64_t{0}};
       },
       "extents whose bytes fit"},
      {"no such shard", [](json& m) { m["tensors"][0]["pieces"][0]["shard"] = 1; },
       "a place within one of the shards"},
      {"piece in the head", [](json& m) { m["tensors"][0]["pieces"][0]["begin"] = 99; }, "a place within"},
      {"piece past the end", [](json& m) { m["tensors"][0]["pieces"][1]["begin"] = 113; }, "a place within"},
      {"piece of huge count", [](json& m) { m["tensors"][0]["pieces"][1]["count"] = INT64_MAX; },
       "a place within"},
      {"hole", [](json& m) { m["tensors"][0]["pieces"][1]["offset"] = 4; }, "where 3 of 8 are held"},
      {"overlap", [](json& m) { m["tensors"][0]["pieces"][1]["offset"] = 2; }, "where 3 of 8 are held"},
      {"element missing", [](json& m) { m["tensors"][0]["pieces"][1]["count"] = 4; }, "7 of 8 elements held"},
      {"no pieces", [](json& m) { m["tensors"][0]["pieces"] = json::array(); }, "0 of 8 elements held"},
      {"tensor twice", [](json& m) { m["tensors"].push_back(m["tensors"][0]); }, "tensor w after w"},
  };
  const std::string text = to_text(example());
  for (const Wrong& one : wrong) {
    json body = json::parse(text).at("manifest");
    ASSERT_EQ(refusal(with_right_hash(body.dump())), "");
    one.change(body);
    EXPECT_THAT(refusal(with_right_hash(body.dump())), AllOf(HasSubstr("FILE: found "), HasSubstr(one.words)))
        << one.kind;
  }
  EXPECT_THAT(refusal(with_right_hash("{\"format\": 1")), HasSubstr("cannot be read"));
  EXPECT_THAT(refusal(with_right_hash("[]")), HasSubstr("cannot be read"));
}

}  // namespace
}  // namespace penstock::checkpoint
