#include "data/tokenizer_json.h"

#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "data/byte_alphabet.h"
#include "data/checked_json.h"
#include "data/mapped_file.h"
#include "data/tokenizer_pipeline.h"

namespace penstock::data {
namespace {

using nlohmann::json;
using IdOfText = std::unordered_map<std::string, int32_t>;

constexpr const char* other_class =
    "use a byte-level BPE tokenizer (of GPT-2's, Llama 3's or Qwen's kind) or train one: penstock tokenizer "
    "train";
constexpr int64_t most_tokens = int64_t{1} << 26;

class Reader {
 public:
  explicit Reader(std::string origin)
      : check_(std::move(origin), "a Hugging Face tokenizer.json", other_class) {}

  Tokenizer read(std::string_view text) {
    const json root = check_.parse(text);
    check_.expect_object(root, "the file");
    const json& model = check_.member(root, "model", "");
    check_.expect_object(model, "model");
    read_model_options(model);
    read_added_tokens(root);
    read_tokenizer_pipeline(root, check_, vocabulary_);
    read_vocabulary(check_.member(model, "vocab", "model."));
    read_merges(check_.member(model, "merges", "model."));
    return Tokenizer(std::move(vocabulary_), check_.origin());
  }

 private:
  void read_model_options(const json& model) {
    // Files older than the `type` key hold it only by their shape.
    if (model.contains("type")) check_.expect_type(model, "model", "BPE");
    const json* dropout = optional_member(model, "dropout");
    if (dropout != nullptr && *dropout != json(0) && *dropout != json(0.0)) {
      check_.other_kind("model.dropout", shown(*dropout), "null (encoding must be a function of the text)");
    }
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const json* found = optional_member(model, key);
      if (found != nullptr && *found != json("")) {
        check_.other_kind(std::string("model.") + key, shown(*found), "null");
      }
    }
    check_.expect_flag(model, "model", "byte_fallback", false);
    vocabulary_.ignore_merges = check_.flag(model, "model", "ignore_merges");
  }

  int32_t id_of(const json& value, const std::string& place) const {
    if (!value.is_number_integer() || value < 0 || value >= most_tokens) {
      check_.wrong(place, shown(value), fmt::format("an id from 0 to {}", most_tokens - 1));
    }
    return value.get<int32_t>();
  }

  void read_added_tokens(const json& root) {
    const json* found = optional_member(root, "added_tokens");
    if (found == nullptr) return;
    check_.expect_list(*found, "added_tokens");
    std::set<int32_t> ids;
    std::set<std::string> texts;
    for (size_t i = 0; i < found->size(); ++i) {
      const std::string place = fmt::format("added_tokens[{}]", i);
      const json& row = (*found)[i];
      check_.expect_object(row, place);
      const json& content = check_.member(row, "content", place + ".");
      if (!content.is_string() || content.get_ref<const std::string&>().empty()) {
        check_.wrong(place + ".content", shown(content), "a text of at least one character");
      }
      for (const char* key : {"single_word", "lstrip", "rstrip"}) check_.expect_flag(row, place, key, false);
      SpecialToken token{id_of(check_.member(row, "id", place + "."), place + ".id"),
                         content.get<std::string>(), check_.flag(row, place, "special"),
                         check_.flag(row, place, "normalized")};
      if (!ids.insert(token.id).second)
        check_.wrong(place + ".id", fmt::format("id {} twice", token.id), "each id once");
      if (!texts.insert(token.text).second)
        check_.wrong(place + ".content", shown(content) + " twice", "each text once");
      vocabulary_.special.push_back(std::move(token));
    }
  }

  void read_vocabulary(const json& vocab) {
    check_.expect_object(vocab, "model.vocab");
    std::unordered_map<int32_t, std::string> special;
    for (const SpecialToken& token : vocabulary_.special) special[token.id] = token.text;
    std::unordered_map<int32_t, std::string> text_of;
    for (const auto& [text, value] : vocab.items()) {
      const std::string place = "model.vocab[" + shown(text) + "]";
      const int32_t id = id_of(value, place);
      if (const auto [other, fresh] = text_of.emplace(id, text); !fresh) {
        check_.wrong(place, fmt::format("id {}, which {} has too", id, shown(other->second)), "each id once");
      }
      ids_[text] = id;
    }
    for (const auto& [id, text] : special) {
      const auto [other, fresh] = text_of.emplace(id, text);
      if (!fresh && other->second != text) {
        check_.wrong("added_tokens", fmt::format("id {} for {}", id, shown(text)),
                     "the vocabulary's " + shown(other->second) + " or a free id");
      }
      if (const auto same = ids_.find(text); same != ids_.end() && same->second != id) {
        check_.wrong("added_tokens", fmt::format("{} with id {}", shown(text), id),
                     fmt::format("its id in the vocabulary, {}", same->second));
      }
    }
    if (text_of.empty()) check_.wrong("model.vocab", "no token", "at least the 256 bytes");
    vocabulary_.tokens.resize(text_of.size());
    for (size_t i = 0; i < text_of.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      const auto found = text_of.find(id);
      if (found == text_of.end()) {
        check_.wrong(
            "model.vocab", fmt::format("no token with id {}", id),
            fmt::format("ids 0 to {} without holes, for {} tokens", text_of.size() - 1, text_of.size()));
      }
      if (special.count(id) > 0) {
        vocabulary_.tokens[i] = found->second;
        continue;
      }
      auto bytes = from_byte_alphabet(found->second);
      if (!bytes || bytes->empty()) {
        check_.other_kind("model.vocab", fmt::format("token {} (id {})", shown(found->second), id),
                          "characters of the byte-level alphabet");
      }
      vocabulary_.tokens[i] = std::move(*bytes);
    }
  }

  int32_t token_id(const std::string& text, const std::string& place) const {
    const auto found = ids_.find(text);
    if (found == ids_.end()) check_.wrong(place, "token " + shown(text), "a token of model.vocab");
    return found->second;
  }

  void read_merges(const json& merges) {
    check_.expect_list(merges, "model.merges");
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
          check_.wrong(place, shown(row), "two tokens with one space between them");
        }
        left = text.substr(0, space);
        right = text.substr(space + 1);
      } else if (row.is_array() && row.size() == 2 && row[0].is_string() && row[1].is_string()) {
        left = row[0].get<std::string>();
        right = row[1].get<std::string>();
      } else {
        check_.wrong(place, shown(row), "\"a b\" or [\"a\", \"b\"]");
      }
      const TokenPair pair{token_id(left, place), token_id(right, place)};
      if (const size_t* other = seen.find(pair)) {
        check_.wrong(place, shown(row) + fmt::format(", which is merge {} too", *other), "each merge once");
      }
      seen[pair] = i;
      vocabulary_.merges.push_back(pair);
    }
  }

  CheckedJson check_;
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

}  // namespace penstock::data
