#include "data/tokenizer_json.h"

#include <functional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "data/data_error.h"
#include "data/encoder.h"
#include "tests/data/temporary_folder.h"

namespace penstock::data {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using tests::get_file;
using tests::message_of;
using tests::put_file;
using tests::TemporaryFolder;

std::string fixture_text() {
  static const std::string text = get_file(std::string(PENSTOCK_FIXTURES) + "/hf_tokenizer.json");
  return text;
}

TEST(TokenizerJson, SavingAndLoadingChangesNothing) {
  const TemporaryFolder folder;
  const Tokenizer first = parse_tokenizer(fixture_text(), "fixture");
  EXPECT_EQ(first.size(), 400);
  EXPECT_EQ(first.end_of_text(), 0);
  save_tokenizer(first, folder / "tokenizer.json");
  const Tokenizer second = load_tokenizer(folder / "tokenizer.json");
  EXPECT_EQ(second.fingerprint(), first.fingerprint());
  EXPECT_EQ(second.vocabulary().tokens, first.vocabulary().tokens);
  EXPECT_EQ(second.vocabulary().merges, first.vocabulary().merges);
  EXPECT_EQ(second.vocabulary().special, first.vocabulary().special);
  const json saved = json::parse(get_file(folder / "tokenizer.json"));
  EXPECT_EQ(saved["model"]["vocab"], json::parse(fixture_text())["model"]["vocab"]);
  EXPECT_TRUE(saved["model"]["merges"][0].is_string());
}

TEST(TokenizerJson, TakesMergesAsStringsAndAsPairs) {
  json root = json::parse(fixture_text());
  json other = json::array();
  for (const json& merge : root["model"]["merges"]) {
    if (merge.is_array()) {
      other.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
    } else {
      const auto text = merge.get<std::string>();
      const size_t space = text.find(' ');
      other.push_back({text.substr(0, space), text.substr(space + 1)});
    }
  }
  root["model"]["merges"] = other;
  EXPECT_EQ(parse_tokenizer(root.dump(), "x").fingerprint(),
            parse_tokenizer(fixture_text(), "x").fingerprint());
}

TEST(TokenizerJson, TakesAddedTokensBehindTheVocabulary) {
  json root = json::parse(fixture_text());
  root["added_tokens"].push_back({{"id", 400}, {"content", "<|pad|>"}, {"special", true}});
  const Tokenizer tokenizer = parse_tokenizer(root.dump(), "x");
  EXPECT_EQ(tokenizer.size(), 401);
  EXPECT_EQ(Encoder(tokenizer).encode("<|pad|>", SpecialText::recognised), std::vector<int32_t>{400});
}

struct Wrong {
  const char* name;
  std::function<void(json&)> change;
  std::vector<std::string> says;
};

std::ostream& operator<<(std::ostream& out, const Wrong& wrong) {
  return out << wrong.name;
}

class WrongTokenizer : public testing::TestWithParam<Wrong> {};

TEST_P(WrongTokenizer, IsRefusedByName) {
  json root = json::parse(fixture_text());
  GetParam().change(root);
  const std::string text = root.dump();
  const std::string message = message_of<DataError>([&] { parse_tokenizer(text, "tok.json"); });
  EXPECT_THAT(message, testing::StartsWith("tok.json"));
  for (const std::string& part : GetParam().says) EXPECT_THAT(message, HasSubstr(part));
}

// A token of the model, by id.
std::string text_of(const json& root, int id) {
  for (const auto& [text, value] : root["model"]["vocab"].items()) {
    if (value == id) return text;
  }
  return "";
}

json split_of(const char* pattern) {
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
}

json behind_split() {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
}

json token_part(const char* text) {
  return {{"SpecialToken", {{"id", text}, {"type_id", 0}}}};
}

json text_part() {
  return {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
}

const std::vector<Wrong> wrongs{
    {"other_model",
     [](json& r) { r["model"]["type"] = "Unigram"; },
     {"model.type", "\"Unigram\"", "\"BPE\""}},
    {"word_piece", [](json& r) { r["model"]["type"] = "WordPiece"; }, {"\"WordPiece\""}},
    {"no_model", [](json& r) { r.erase("model"); }, {"model", "nothing"}},
    {"model_list", [](json& r) { r["model"] = json::array(); }, {"model", "array"}},
    {"normaliser",
     [](json& r) {
       r["normalizer"] = {{"type", "Lowercase"}};
     },
     {"normalizer", "\"Lowercase\""}},
    {"normaliser_in_sequence",
     [](json& r) {
       r["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}, {{"type", "NFKC"}}}}};
     },
     {"normalizer.normalizers[1]", "\"NFKC\""}},
    {"no_pre_tokenizer", [](json& r) { r["pre_tokenizer"] = nullptr; }, {"pre_tokenizer", "null"}},
    {"other_pre_tokenizer",
     [](json& r) {
       r["pre_tokenizer"] = {{"type", "Metaspace"}};
     },
     {"\"Metaspace\""}},
    {"empty_sequence",
     [](json& r) {
       r["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", json::array()}};
     },
     {"pre_tokenizer.pretokenizers", "0 steps"}},
    {"two_splits",
     [](json& r) {
       const json steps = json::array({split_of("a"), split_of("b"), behind_split()});
       r["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", steps}};
     },
     {"pre_tokenizer.pretokenizers", "3 steps"}},
    {"split_twice",
     [](json& r) {
       json last = behind_split();
       last["use_regex"] = true;
       r["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", json::array({split_of("a"), last})}};
     },
     {"pretokenizers[1].use_regex", "true"}},
    {"split_removes",
     [](json& r) {
       json first = split_of("a");
       first["behavior"] = "Removed";
       r["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", json::array({first, behind_split()})}};
     },
     {"pretokenizers[0].behavior", "Removed"}},
    {"split_by_string",
     [](json& r) {
       json first = split_of("a");
       first["pattern"] = {{"String", "a"}};
       r["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", json::array({first, behind_split()})}};
     },
     {"pretokenizers[0].pattern", "String"}},
    {"digits",
     [](json& r) {
       const json first = {{"type", "Digits"}};
       r["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", json::array({first, behind_split()})}};
     },
     {"pretokenizers[0].type", "\"Digits\""}},
    {"pattern",
     [](json& r) {
       const json steps = json::array({split_of("a|\\w+"), behind_split()});
       r["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", steps}};
     },
     {"character 2", "`\\w`"}},
    {"prefix_space",
     [](json& r) { r["pre_tokenizer"]["add_prefix_space"] = true; },
     {"add_prefix_space", "true"}},
    {"no_regex", [](json& r) { r["pre_tokenizer"]["use_regex"] = false; }, {"use_regex", "false"}},
    {"decoder",
     [](json& r) {
       r["decoder"] = {{"type", "WordPiece"}};
     },
     {"decoder.type", "WordPiece"}},
    {"post",
     [](json& r) {
       r["post_processor"] = {{"type", "BertProcessing"}};
     },
     {"BertProcessing"}},
    {"token_behind_text",
     [](json& r) {
       const json parts = json::array({text_part(), token_part("<|endoftext|>")});
       r["post_processor"] = {{"type", "TemplateProcessing"}, {"single", parts}};
     },
     {"post_processor.single", "none behind it"}},
    {"unknown_begin",
     [](json& r) {
       const json parts = json::array({token_part("<s>"), text_part()});
       r["post_processor"] = {{"type", "TemplateProcessing"}, {"single", parts}};
     },
     {"post_processor.single", "<s>"}},
    {"other_begin_id",
     [](json& r) {
       const json parts = json::array({token_part("<|endoftext|>"), text_part()});
       r["post_processor"] = {{"type", "TemplateProcessing"},
                              {"single", parts},
                              {"special_tokens", {{"<|endoftext|>", {{"ids", json::array({7})}}}}}};
     },
     {"special_tokens", "[7]"}},
    {"sequence_in_sequence",
     [](json& r) {
       const json inner = {{"type", "Sequence"}, {"processors", json::array()}};
       r["post_processor"] = {{"type", "Sequence"}, {"processors", json::array({inner})}};
     },
     {"post_processor.processors[0]", "Sequence"}},
    {"dropout", [](json& r) { r["model"]["dropout"] = 0.1; }, {"model.dropout", "0.1"}},
    {"prefix", [](json& r) { r["model"]["continuing_subword_prefix"] = "##"; }, {"##"}},
    {"suffix", [](json& r) { r["model"]["end_of_word_suffix"] = "</w>"; }, {"</w>"}},
    {"fallback", [](json& r) { r["model"]["byte_fallback"] = true; }, {"byte_fallback"}},
    {"ignore_merges", [](json& r) { r["model"]["ignore_merges"] = "yes"; }, {"ignore_merges", "yes"}},
    {"no_vocab", [](json& r) { r["model"].erase("vocab"); }, {"model.vocab", "nothing"}},
    {"vocab_list", [](json& r) { r["model"]["vocab"] = json::array(); }, {"model.vocab", "array"}},
    {"empty_vocab",
     [](json& r) {
       r["model"]["vocab"] = json::object();
       r["added_tokens"] = json::array();
     },
     {"no token"}},
    {"id_twice", [](json& r) { r["model"]["vocab"]["zz"] = 300; }, {"id 300"}},
    {"hole",
     [](json& r) {
       r["model"]["vocab"].erase(text_of(r, 399));
       r["model"]["vocab"]["zz"] = 999;
     },
     {"no token with id 399"}},
    {"negative_id", [](json& r) { r["model"]["vocab"]["zz"] = -1; }, {"zz", "-1"}},
    {"huge_id", [](json& r) { r["model"]["vocab"]["zz"] = 1e18; }, {"zz"}},
    {"text_id", [](json& r) { r["model"]["vocab"]["zz"] = "7"; }, {"zz", "\"7\""}},
    {"not_in_alphabet", [](json& r) { r["model"]["vocab"]["\u4e2d"] = 400; }, {"\u4e2d", "alphabet"}},
    {"no_byte",
     [](json& r) {
       json& vocab = r["model"]["vocab"];
       vocab["~~~~"] = vocab["\u0100"];  // byte 0, which no merge has
       vocab.erase("\u0100");
     },
     {"no token for byte 0x00"}},
    {"no_merges", [](json& r) { r["model"].erase("merges"); }, {"model.merges", "nothing"}},
    {"merges_object", [](json& r) { r["model"]["merges"] = json::object(); }, {"model.merges", "object"}},
    {"merge_one_part", [](json& r) { r["model"]["merges"][2] = "ab"; }, {"merges[2]", "\"ab\""}},
    {"merge_three_parts", [](json& r) { r["model"]["merges"][2] = "a b c"; }, {"merges[2]"}},
    {"merge_no_left", [](json& r) { r["model"]["merges"][2] = " b"; }, {"merges[2]"}},
    {"merge_long_list",
     [](json& r) {
       r["model"]["merges"][2] = {"a", "b", "c"};
     },
     {"merges[2]"}},
    {"merge_number", [](json& r) { r["model"]["merges"][2] = 5; }, {"merges[2]", "5"}},
    {"merge_unknown_token",
     [](json& r) { r["model"]["merges"][2] = "a \u4e2d"; },
     {"merges[2]", "token \"\u4e2d\""}},
    {"merge_no_result", [](json& r) { r["model"]["merges"][2] = "~ ~"; }, {"merge 2", "~~"}},
    {"merge_twice",
     [](json& r) { r["model"]["merges"][5] = r["model"]["merges"][2]; },
     {"merges[5]", "merge 2"}},
    {"added_not_list", [](json& r) { r["added_tokens"] = 1; }, {"added_tokens", "number"}},
    {"added_no_id", [](json& r) { r["added_tokens"][0].erase("id"); }, {"added_tokens[0].id"}},
    {"added_no_content", [](json& r) { r["added_tokens"][0].erase("content"); }, {"added_tokens[0].content"}},
    {"added_empty", [](json& r) { r["added_tokens"][0]["content"] = ""; }, {"added_tokens[0].content"}},
    {"added_twice", [](json& r) { r["added_tokens"].push_back(r["added_tokens"][0]); }, {"id 0 twice"}},
    {"added_elsewhere", [](json& r) { r["added_tokens"][0]["id"] = 400; }, {"<|endoftext|>", "400"}},
    {"added_over_another", [](json& r) { r["added_tokens"][0]["content"] = "<s>"; }, {"added_tokens", "<s>"}},
    {"added_strip", [](json& r) { r["added_tokens"][0]["lstrip"] = true; }, {"lstrip"}},
};

INSTANTIATE_TEST_SUITE_P(Kinds, WrongTokenizer, testing::ValuesIn(wrongs),
                         [](const auto& kind) { return std::string(kind.param.name); });

TEST(TokenizerJson, RefusesTextThatIsNoJson) {
  EXPECT_THAT(message_of<DataError>([] { parse_tokenizer("", "t"); }), HasSubstr("not JSON"));
  EXPECT_THAT(message_of<DataError>([] { parse_tokenizer("{\"a\": ]", "t"); }),
              testing::AllOf(HasSubstr("byte 6"), HasSubstr("line 1, column 7")));
  EXPECT_THAT(message_of<DataError>([] { parse_tokenizer("[]", "t"); }), HasSubstr("array"));
  EXPECT_THAT(message_of<DataError>([] { parse_tokenizer("{\"a\": 1, \"a\": 2}", "t"); }),
              HasSubstr("\"a\" twice"));
  EXPECT_THAT(message_of<DataError>([] { parse_tokenizer(std::string(100000, '['), "t"); }),
              HasSubstr("not JSON"));
}

TEST(TokenizerJson, RefusesFilesThatCannotBeRead) {
  const TemporaryFolder folder;
  EXPECT_THAT(message_of<DataError>([&] { load_tokenizer(folder / "none.json"); }),
              HasSubstr("No such file"));
  EXPECT_THAT(message_of<DataError>([&] { load_tokenizer(folder.path().string()); }), HasSubstr("a folder"));
  put_file(folder / "empty.json", "");
  EXPECT_THAT(message_of<DataError>([&] { load_tokenizer(folder / "empty.json"); }), HasSubstr("not JSON"));
}

TEST(TokenizerJson, DamagedTextIsRefusedOrGivesATokenizer) {
  const std::string good = fixture_text();
  std::mt19937_64 random(3);
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    std::string text = good;
    for (size_t changes = random() % 3 + 1; changes > 0; --changes) {
      const size_t at = random() % text.size();
      if (random() % 2 == 0) {
        text[at] = static_cast<char>(random());
      } else {
        text.erase(at, random() % 40);
      }
    }
    try {
      const Tokenizer tokenizer = parse_tokenizer(text, "damaged");
      EXPECT_EQ(tokenizer.decode(Encoder(tokenizer).encode("the quick fox")), "the quick fox");
    } catch (const DataError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace penstock::data
