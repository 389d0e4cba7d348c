#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "data/byte_alphabet.h"
#include "data/file_writer.h"
#include "data/tokenizer_json.h"

namespace penstock::data {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

ordered_json byte_level(bool use_regex) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

ordered_json pre_tokenizer(const Vocabulary& vocabulary) {
  if (vocabulary.split_pattern == gpt2_split_pattern) return byte_level(true);
  const ordered_json split = {{"type", "Split"},
                              {"pattern", {{"Regex", vocabulary.split_pattern}}},
                              {"behavior", "Isolated"},
                              {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", ordered_json::array({split, byte_level(false)})}};
}

ordered_json post_processor(const Vocabulary& vocabulary) {
  if (!vocabulary.begin_of_text) return byte_level(true);
  std::string text;
  for (const SpecialToken& token : vocabulary.special) {
    if (token.id == *vocabulary.begin_of_text) text = token.text;
  }
  const auto begin = [&](int type) {
    return ordered_json{{"SpecialToken", {{"id", text}, {"type_id", type}}}};
  };
  const auto sequence = [](const char* name, int type) {
    return ordered_json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  return {{"type", "TemplateProcessing"},
          {"single", ordered_json::array({begin(0), sequence("A", 0)})},
          {"pair", ordered_json::array({begin(0), sequence("A", 0), begin(1), sequence("B", 1)})},
          {"special_tokens",
           {{text,
             {{"id", text},
              {"ids", json::array({*vocabulary.begin_of_text})},
              {"tokens", json::array({text})}}}}}};
}

}  // namespace

std::string tokenizer_json(const Tokenizer& tokenizer) {
  const Vocabulary& vocabulary = tokenizer.vocabulary();
  std::vector<std::string> texts;
  for (const std::string& token : vocabulary.tokens) texts.push_back(to_byte_alphabet(token));
  ordered_json root;
  root["version"] = "1.0";
  root["truncation"] = nullptr;
  root["padding"] = nullptr;
  root["added_tokens"] = json::array();
  for (const SpecialToken& token : vocabulary.special) {
    texts[static_cast<size_t>(token.id)] = token.text;
    root["added_tokens"].push_back({{"id", token.id},
                                    {"content", token.text},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", token.normalized},
                                    {"special", token.special}});
  }
  root["normalizer"] = vocabulary.nfc ? ordered_json{{"type", "NFC"}} : ordered_json();
  root["pre_tokenizer"] = pre_tokenizer(vocabulary);
  root["post_processor"] = post_processor(vocabulary);
  root["decoder"] = byte_level(true);
  ordered_json& model = root["model"];
  model["type"] = "BPE";
  for (const char* key : {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"}) {
    model[key] = nullptr;
  }
  for (const char* key : {"fuse_unk", "byte_fallback"}) model[key] = false;
  model["ignore_merges"] = vocabulary.ignore_merges;
  model["vocab"] = ordered_json::object();
  model["merges"] = json::array();
  for (const TokenPair& pair : vocabulary.merges) {
    model["merges"].push_back(texts[static_cast<size_t>(pair.left)] + " " +
                              texts[static_cast<size_t>(pair.right)]);
  }
  // An ordered_json object looks a key up by walking: written into the text instead, it stays linear.
  std::string vocab = "{";
  for (size_t i = 0; i < texts.size(); ++i) {
    vocab += (i == 0 ? "\n" : ",\n") + json(texts[i]).dump() + ": " + std::to_string(i);
  }
  vocab += "\n}";
  std::string text = root.dump(2);
  const std::string place = "\"vocab\": {}";
  text.replace(text.find(place), place.size(), "\"vocab\": " + vocab);
  return text + "\n";
}

void save_tokenizer(const Tokenizer& tokenizer, const std::string& path) {
  write_file(path, tokenizer_json(tokenizer));
}

}  // namespace penstock::data
