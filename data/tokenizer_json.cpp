#include "data/tokenizer_json.h"

#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "data/byte_alphabet.h"
#include "data/data_error.h"
#include "data/file_writer.h"
#include "data/json/json_fault.h"
#include "data/mapped_file.h"
#include "data/utf8.h"

namespace penstock::data {
namespace {

using nlohmann::json;
using IdOfText = std::unordered_map<std::string, int32_t>;

constexpr const char* other_class =
    "use a tokenizer of the GPT-2 class (byte-level BPE) or train one: penstock tokenizer train";
constexpr const char* correct_file = "correct the file or make it anew";
constexpr int64_t most_tokens = int64_t{1} << 26;

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

class Reader {
 public:
  explicit Reader(std::string origin) : origin_(std::move(origin)) {}

  Tokenizer read(std::string_view text) {
    const json root = parse(text);
    expect_object(root, "the file");
    const json& model = member(root, "model", "");
    expect_object(model, "model");
    read_model_options(model);
    refuse_unless_null(root, "normalizer");
    read_pre_tokenizer(root);
    read_decoder(root);
    read_post_processor(root);
    read_added_tokens(root);
    read_vocabulary(member(model, "vocab", "model."));
    read_merges(member(model, "merges", "model."));
    return Tokenizer(std::move(vocabulary_), origin_);
  }

 private:
  [[noreturn]] void fail(const std::string& place, const std::string& found, const std::string& expected,
                         const std::string& advice) const {
    throw DataError(Fault{origin_ + ": " + place, {}, found, expected, advice});
  }

  // JSON lets a key appear twice and libraries keep the last one in silence: here it is an error.
  json parse(std::string_view text) const {
    std::vector<std::set<std::string>> open_objects;
    const auto watch = [&](int /*depth*/, json::parse_event_t event, json& parsed) {
      if (event == json::parse_event_t::object_start) open_objects.emplace_back();
      if (event == json::parse_event_t::object_end) open_objects.pop_back();
      if (event == json::parse_event_t::key &&
          !open_objects.back().insert(parsed.get<std::string>()).second) {
        fail("an object", "the key " + shown(parsed) + " twice", "each key once", correct_file);
      }
      return true;
    };
    try {
      return json::parse(text.begin(), text.end(), watch);
    } catch (const json::exception& error) {
      const JsonFault fault = json_fault(text, error);
      throw DataError(Fault{
          origin_, fault.byte,
          fmt::format("text that is not JSON (line {}, column {}: {})", fault.line, fault.column, fault.what),
          "a Hugging Face tokenizer.json", correct_file});
    }
  }

  void expect_object(const json& value, const std::string& place) const {
    if (!value.is_object()) fail(place, value.type_name(), "an object", correct_file);
  }

  const json& member(const json& object, const char* key, const std::string& prefix) const {
    const auto found = object.find(key);
    if (found == object.end()) fail(prefix + key, "nothing", "this key", correct_file);
    return *found;
  }

  void refuse_unless_null(const json& object, const char* key) const {
    const auto found = object.find(key);
    if (found == object.end() || found->is_null()) return;
    fail(key, found->is_object() && found->contains("type") ? shown((*found)["type"]) : shown(*found), "null",
         other_class);
  }

  std::string type_of(const json& object, const std::string& place) const {
    expect_object(object, place);
    const json& type = member(object, "type", place + ".");
    if (!type.is_string()) fail(place + ".type", shown(type), "a string", correct_file);
    return type.get<std::string>();
  }

  void expect_type(const json& object, const std::string& place, const char* expected) const {
    const std::string type = type_of(object, place);
    if (type != expected)
      fail(place + ".type", "\"" + type + "\"", std::string("\"") + expected + "\"", other_class);
  }

  // `key` absent counts as the expected value.
  void expect_flag(const json& object, const std::string& place, const char* key, bool expected) const {
    const auto found = object.find(key);
    if (found == object.end() || *found == json(expected)) return;
    fail(place + "." + key, shown(*found), expected ? "true" : "false", other_class);
  }

  void read_pre_tokenizer(const json& root) const {
    const json& object = member(root, "pre_tokenizer", "");
    expect_type(object, "pre_tokenizer", "ByteLevel");
    if (!object.contains("add_prefix_space"))
      fail("pre_tokenizer.add_prefix_space", "nothing", "false", correct_file);
    expect_flag(object, "pre_tokenizer", "add_prefix_space", false);
    expect_flag(object, "pre_tokenizer", "use_regex", true);
  }

  void read_decoder(const json& root) const {
    const auto found = root.find("decoder");
    if (found != root.end() && !found->is_null()) expect_type(*found, "decoder", "ByteLevel");
  }

  // ByteLevel's post-processing moves character offsets and changes no token.
  void read_post_processor(const json& root) const {
    const auto found = root.find("post_processor");
    if (found != root.end() && !found->is_null()) expect_type(*found, "post_processor", "ByteLevel");
  }

  void read_model_options(const json& model) const {
    // Files older than the `type` key hold it only by their shape.
    if (model.contains("type")) expect_type(model, "model", "BPE");
    const auto dropout = model.find("dropout");
    if (dropout != model.end() && !dropout->is_null() && *dropout != json(0) && *dropout != json(0.0)) {
      fail("model.dropout", shown(*dropout), "null (encoding must be a function of the text)", other_class);
    }
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const auto found = model.find(key);
      if (found != model.end() && !found->is_null() && *found != json("")) {
        fail(std::string("model.") + key, shown(*found), "null", other_class);
      }
    }
    expect_flag(model, "model", "byte_fallback", false);
    expect_flag(model, "model", "ignore_merges", false);
  }

  int32_t id_of(const json& value, const std::string& place) const {
    if (!value.is_number_integer() || value < 0 || value >= most_tokens) {
      fail(place, shown(value), fmt::format("an id from 0 to {}", most_tokens - 1), correct_file);
    }
    return value.get<int32_t>();
  }

  void read_added_tokens(const json& root) {
    const auto found = root.find("added_tokens");
    if (found == root.end() || found->is_null()) return;
    if (!found->is_array()) fail("added_tokens", found->type_name(), "a list", correct_file);
    std::set<int32_t> ids;
    std::set<std::string> texts;
    for (size_t i = 0; i < found->size(); ++i) {
      const std::string place = fmt::format("added_tokens[{}]", i);
      const json& row = (*found)[i];
      expect_object(row, place);
      const json& content = member(row, "content", place + ".");
      if (!content.is_string() || content.get_ref<const std::string&>().empty()) {
        fail(place + ".content", shown(content), "a text of at least one character", correct_file);
      }
      for (const char* key : {"single_word", "lstrip", "rstrip"}) expect_flag(row, place, key, false);
      SpecialToken token{id_of(member(row, "id", place + "."), place + ".id"), content.get<std::string>()};
      if (!ids.insert(token.id).second)
        fail(place + ".id", fmt::format("id {} twice", token.id), "each id once", correct_file);
      if (!texts.insert(token.text).second)
        fail(place + ".content", shown(content) + " twice", "each text once", correct_file);
      vocabulary_.special.push_back(std::move(token));
    }
  }

  void read_vocabulary(const json& vocab) {
    expect_object(vocab, "model.vocab");
    std::unordered_map<int32_t, std::string> special;
    for (const SpecialToken& token : vocabulary_.special) special[token.id] = token.text;
    std::unordered_map<int32_t, std::string> text_of;
    for (const auto& [text, value] : vocab.items()) {
      const std::string place = "model.vocab[" + shown(text) + "]";
      const int32_t id = id_of(value, place);
      if (const auto [other, fresh] = text_of.emplace(id, text); !fresh) {
        fail(place, fmt::format("id {}, which {} has too", id, shown(other->second)), "each id once",
             correct_file);
      }
      ids_[text] = id;
    }
    for (const auto& [id, text] : special) {
      const auto [other, fresh] = text_of.emplace(id, text);
      if (!fresh && other->second != text) {
        fail("added_tokens", fmt::format("id {} for {}", id, shown(text)),
             "the vocabulary's " + shown(other->second) + " or a free id", correct_file);
      }
      if (const auto same = ids_.find(text); same != ids_.end() && same->second != id) {
        fail("added_tokens", fmt::format("{} with id {}", shown(text), id),
             fmt::format("its id in the vocabulary, {}", same->second), correct_file);
      }
    }
    if (text_of.empty()) fail("model.vocab", "no token", "at least the 256 bytes", correct_file);
    vocabulary_.tokens.resize(text_of.size());
    for (size_t i = 0; i < text_of.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      const auto found = text_of.find(id);
      if (found == text_of.end()) {
        fail("model.vocab", fmt::format("no token with id {}", id),
             fmt::format("ids 0 to {} without holes, for {} tokens", text_of.size() - 1, text_of.size()),
             correct_file);
      }
      if (special.count(id) > 0) {
        vocabulary_.tokens[i] = found->second;
        continue;
      }
      auto bytes = from_byte_alphabet(found->second);
      if (!bytes || bytes->empty()) {
        fail("model.vocab", fmt::format("token {} (id {})", shown(found->second), id),
             "characters of the byte-level alphabet", other_class);
      }
      vocabulary_.tokens[i] = std::move(*bytes);
    }
  }

  int32_t token_id(const std::string& text, const std::string& place) const {
    const auto found = ids_.find(text);
    if (found == ids_.end()) fail(place, "token " + shown(text), "a token of model.vocab", correct_file);
    return found->second;
  }

  void read_merges(const json& merges) {
    if (!merges.is_array()) fail("model.merges", merges.type_name(), "a list", correct_file);
    PairTable<size_t> seen(merges.size());
    for (size_t i = 0; i < merges.size(); ++i) {
      const std::string place = fmt::format("model.merges[{}]", i);
      const json& row = merges[i];
      std::string left;
      std::string right;
      if (row.is_string()) {
        const auto& text = row.get_ref<const std::string&>();
        const size_t space = text.find(' ');
        if (space == std::string::npos || space == 0 || space + 1 == text.size() ||
            text.find(' ', space + 1) != std::string::npos) {
          fail(place, shown(row), "two tokens with one space between them", correct_file);
        }
        left = text.substr(0, space);
        right = text.substr(space + 1);
      } else if (row.is_array() && row.size() == 2 && row[0].is_string() && row[1].is_string()) {
        left = row[0].get<std::string>();
        right = row[1].get<std::string>();
      } else {
        fail(place, shown(row), "\"a b\" or [\"a\", \"b\"]", correct_file);
      }
      const TokenPair pair{token_id(left, place), token_id(right, place)};
      if (const size_t* other = seen.find(pair)) {
        fail(place, shown(row) + fmt::format(", which is merge {} too", *other), "each merge once",
             correct_file);
      }
      seen[pair] = i;
      vocabulary_.merges.push_back(pair);
    }
  }

  std::string origin_;
  Vocabulary vocabulary_;
  IdOfText ids_;
};

}  // namespace

Tokenizer load_tokenizer(const std::string& path) {
  const MappedFile file(path);
  return parse_tokenizer(file.text(), path);
}

Tokenizer parse_tokenizer(std::string_view json, const std::string& origin) {
  return Reader(origin).read(json);
}

std::string tokenizer_json(const Tokenizer& tokenizer) {
  const Vocabulary& vocabulary = tokenizer.vocabulary();
  std::vector<std::string> texts;
  for (const std::string& token : vocabulary.tokens) texts.push_back(to_byte_alphabet(token));
  nlohmann::ordered_json root;
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
                                    {"normalized", false},
                                    {"special", true}});
  }
  root["normalizer"] = nullptr;
  const nlohmann::ordered_json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  for (const char* part : {"pre_tokenizer", "post_processor", "decoder"}) root[part] = byte_level;
  nlohmann::ordered_json& model = root["model"];
  model["type"] = "BPE";
  for (const char* key : {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"}) {
    model[key] = nullptr;
  }
  for (const char* key : {"fuse_unk", "byte_fallback", "ignore_merges"}) model[key] = false;
  model["vocab"] = nlohmann::ordered_json::object();
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
