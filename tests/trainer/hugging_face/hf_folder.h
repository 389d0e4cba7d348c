// A folder for a test's files, and the models that transformers wrote into fixtures/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/data_error.h"
#include "tests/data/temporary_folder.h"
#include "trainer/hugging_face/import_model.h"

namespace penstock::hugging_face {

namespace fs = std::filesystem;

inline nlohmann::json json_in(const fs::path& path) {
  std::ifstream in(path);
  return nlohmann::json::parse(in);
}

/// What transformers computed from a fixture's model.
struct Expected {
  std::vector<int32_t> tokens;
  std::vector<float> logits;  ///< of every token, row by row
  std::vector<int32_t> greedy;
};

/// The fixtures' folders, as values of a parameterised test and as parts of its name.
inline const auto fixture_names = testing::Values("gpt2", "llama", "llama-scaled", "qwen2", "qwen3");
inline std::string name_of_fixture(const testing::TestParamInfo<const char*>& parameter) {
  std::string name = parameter.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

struct HuggingFaceTest : testing::Test {
  tests::TemporaryFolder folder_of_test;
  fs::path root = folder_of_test.path();

  static fs::path fixture(const std::string& name) { return fs::path(PENSTOCK_FIXTURES) / name; }

  static Expected expected(const std::string& name) {
    const nlohmann::json file = json_in(fixture(name) / "expected.json");
    return {file.at("tokens"), file.at("logits"), file.at("greedy")};
  }

  /// A copy of a fixture that a test may spoil.
  fs::path copy(const std::string& name) const {
    const fs::path to = root / ("copy-" + name);
    fs::remove_all(to);
    fs::copy(fixture(name), to);
    return to;
  }

  static void edit_json(const fs::path& path, const std::function<void(nlohmann::json&)>& change) {
    nlohmann::json object = json_in(path);
    change(object);
    std::ofstream(path) << object.dump(2);
  }

  ImportResult import_into(const std::string& run, const fs::path& folder, ImportOptions options = {}) const {
    options.run = (root / run).string();
    return import_model(folder.string(), options);
  }

  /// The message with which the import of `folder` is refused.
  std::string refusal(const fs::path& folder, const ImportOptions& options = {}) const {
    try {
      import_into("refused", folder, options);
    } catch (const data::DataError& error) {
      EXPECT_FALSE(fs::exists(root / "refused" / "checkpoints" / "step-00000000"));
      return error.what();
    }
    return "imported";
  }
};

}  // namespace penstock::hugging_face
