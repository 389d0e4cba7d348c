#include "data/tokenizer_pipeline.h"

#include <fmt/format.h>

#include "data/data_error.h"
#include "data/text_split.h"

namespace penstock::data {
namespace {

using nlohmann::json;

class PipelineReader {
 public:
  PipelineReader(const CheckedJson& check, Vocabulary& vocabulary) : check_(check), vocabulary_(vocabulary) {}

  void normalizer(const json& object, const std::string& place) {
    const std::string type = check_.type_of(object, place);
    if (type == "NFC") {
      vocabulary_.nfc = true;
    } else if (type == "Sequence") {
      each(object, place, "normalizers",
           [&](const json& part, const std::string& at) { normalizer(part, at); });
    } else {
      check_.other_kind(place, "\"" + type + "\"", "null or \"NFC\"");
    }
  }

  void pre_tokenizer(const json& object, const std::string& place) {
    if (check_.type_of(object, place) != "Sequence") return byte_level(object, place, true);
    const json& parts = check_.member(object, "pretokenizers", place + ".");
    check_.expect_list(parts, place + ".pretokenizers");
    if (parts.size() == 1) return byte_level(parts[0], place + ".pretokenizers[0]", true);
    if (parts.size() != 2) {
      check_.other_kind(place + ".pretokenizers", fmt::format("{} steps", parts.size()),
                        "\"Split\" and \"ByteLevel\"");
    }
    split(parts[0], place + ".pretokenizers[0]");
    byte_level(parts[1], place + ".pretokenizers[1]", false);
  }

  void post_processor(const json& object, const std::string& place) {
    const std::string type = check_.type_of(object, place);
    if (type == "ByteLevel") return;  // it moves character offsets and changes no token
    if (type == "TemplateProcessing") return begin_of_text(object, place);
    if (type != "Sequence") {
      check_.other_kind(place + ".type", "\"" + type + "\"", "\"ByteLevel\" or \"TemplateProcessing\"");
    }
    each(object, place, "processors",
         [&](const json& part, const std::string& at) { post_processor(part, at); });
  }

 private:
  template <class Visit>
  void each(const json& object, const std::string& place, const char* key, Visit&& visit) {
    const json& parts = check_.member(object, key, place + ".");
    check_.expect_list(parts, place + "." + key);
    // Sequences in sequences say nothing more; a file has them only to exhaust a reader's stack.
    for (size_t i = 0; i < parts.size(); ++i) {
      const std::string at = fmt::format("{}.{}[{}]", place, key, i);
      if (check_.type_of(parts[i], at) == "Sequence") {
        check_.other_kind(at, "\"Sequence\" in a \"Sequence\"", "one list of steps");
      }
      visit(parts[i], at);
    }
  }

  void byte_level(const json& object, const std::string& place, bool splits) const {
    check_.expect_type(object, place, "ByteLevel");
    if (!object.contains("add_prefix_space")) check_.wrong(place + ".add_prefix_space", "nothing", "false");
    check_.expect_flag(object, place, "add_prefix_space", false);
    if (!splits && !object.contains("use_regex")) {
      check_.other_kind(place + ".use_regex", "nothing, which is true", "false behind a \"Split\"");
    }
    check_.expect_flag(object, place, "use_regex", splits);
  }

  void split(const json& object, const std::string& place) {
    check_.expect_type(object, place, "Split");
    const json& pattern = check_.member(object, "pattern", place + ".");
    check_.expect_object(pattern, place + ".pattern");
    if (!pattern.contains("Regex")) check_.other_kind(place + ".pattern", shown(pattern), "a \"Regex\"");
    vocabulary_.split_pattern = check_.text(pattern["Regex"], place + ".pattern.Regex");
    try {
      const SplitPattern compiled(vocabulary_.split_pattern);
    } catch (const DataError& error) {
      throw DataError(fmt::format("{}: {}.pattern: {}", check_.origin(), place, error.what()));
    }
    const json& behavior = check_.member(object, "behavior", place + ".");
    if (behavior != "Isolated") check_.other_kind(place + ".behavior", shown(behavior), "\"Isolated\"");
    check_.expect_flag(object, place, "invert", false);
  }

  // `single`: a special token or none, then the text. `pair` is for two texts, of which nothing here is made.
  void begin_of_text(const json& object, const std::string& place) {
    const json& single = check_.member(object, "single", place + ".");
    const std::string at = place + ".single";
    check_.expect_list(single, at);
    const auto is = [&](size_t i, const char* kind) {
      return i < single.size() && single[i].is_object() && single[i].contains(kind);
    };
    const size_t sequence = is(0, "SpecialToken") ? 1 : 0;
    if (single.size() != sequence + 1 || !is(sequence, "Sequence")) {
      check_.other_kind(at, shown(single), "at most one token before the text and none behind it");
    }
    if (sequence == 0) return;
    const json& token = single[0]["SpecialToken"];
    check_.expect_object(token, at + "[0].SpecialToken");
    const std::string text =
        check_.text(check_.member(token, "id", at + "[0].SpecialToken."), at + "[0].SpecialToken.id");
    for (const SpecialToken& special : vocabulary_.special) {
      if (special.text != text) continue;
      expect_ids(object, place, special);
      vocabulary_.begin_of_text = special.id;
      return;
    }
    check_.wrong(at, shown(json(text)), "one of added_tokens");
  }

  void expect_ids(const json& object, const std::string& place, const SpecialToken& token) const {
    const json* table = optional_member(object, "special_tokens");
    if (table == nullptr || !table->is_object() || !table->contains(token.text)) return;
    const json& row = (*table)[token.text];
    const json* ids = row.is_object() ? optional_member(row, "ids") : nullptr;
    if (ids == nullptr || *ids == json::array({token.id})) return;
    check_.wrong(place + ".special_tokens", fmt::format("ids {} for {}", shown(*ids), shown(token.text)),
                 fmt::format("[{}], its id in added_tokens", token.id));
  }

  const CheckedJson& check_;
  Vocabulary& vocabulary_;
};

}  // namespace

void read_tokenizer_pipeline(const json& root, const CheckedJson& check, Vocabulary& vocabulary) {
  PipelineReader reader(check, vocabulary);
  if (const json* object = optional_member(root, "normalizer")) reader.normalizer(*object, "normalizer");
  reader.pre_tokenizer(check.member(root, "pre_tokenizer", ""), "pre_tokenizer");
  if (const json* object = optional_member(root, "decoder")) {
    check.expect_type(*object, "decoder", "ByteLevel");
  }
  if (const json* object = optional_member(root, "post_processor")) {
    reader.post_processor(*object, "post_processor");
  }
}

}  // namespace penstock::data
