#include "data/side_car.h"

#include <charconv>
#include <limits>

#include <fmt/format.h>
#include <toml++/toml.h>
#include <unistd.h>

#include "data/content_hash.h"
#include "data/data_error.h"
#include "data/file_writer.h"
#include "data/mapped_file.h"

namespace penstock::data {
namespace {

constexpr int64_t schema = 1;

// Typed access to the keys; each error names file, line and column.
class Reader {
 public:
  Reader(std::string path, std::string_view text) : path_(std::move(path)) {
    try {
      table_ = toml::parse(text, path_);
    } catch (const toml::parse_error& error) {
      const auto place = error.source().begin;
      fail(fmt::format("{}:{}:{}", path_, place.line, place.column), std::string(error.description()),
           "TOML");
    }
  }

  int64_t integer(const char* key, int64_t least) const {
    const auto value = table_[key].value_exact<int64_t>();
    if (!value || *value < least)
      fail(place_of(key), shown(key), fmt::format("an integer of at least {}", least));
    return *value;
  }

  std::string text(const char* key) const {
    const auto value = table_[key].value_exact<std::string>();
    if (!value) fail(place_of(key), shown(key), "a string");
    return *value;
  }

  bool has(const char* key) const { return table_.contains(key); }

  std::vector<uint64_t> hashes(const char* key) const {
    const toml::array* list = table_[key].as_array();
    if (list == nullptr) fail(place_of(key), shown(key), "a list of hashes");
    std::vector<uint64_t> out;
    for (const toml::node& node : *list) {
      const auto value = node.value_exact<std::string>();
      uint64_t hash = 0;
      const char* end = value ? value->data() + value->size() : nullptr;
      if (!value || value->size() != 16 || std::from_chars(value->data(), end, hash, 16).ptr != end) {
        fail(place_of(key), value ? "\"" + *value + "\"" : "an entry that is no string",
             "16 hexadecimal digits");
      }
      out.push_back(hash);
    }
    return out;
  }

  [[noreturn]] void fail_at(const char* key, const std::string& expected) const {
    fail(place_of(key), shown(key), expected);
  }

 private:
  std::string place_of(const char* key) const {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return fmt::format("{}: {}", path_, key);
    return fmt::format("{}:{}:{}: {}", path_, node->source().begin.line, node->source().begin.column, key);
  }

  std::string shown(const char* key) const {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return "nothing";
    if (const auto value = node->value_exact<int64_t>()) return fmt::format("{}", *value);
    if (const auto value = node->value_exact<std::string>()) return fmt::format("\"{}\"", *value);
    return "another type";
  }

  [[noreturn]] static void fail(const std::string& place, const std::string& found,
                                const std::string& expected) {
    throw DataError(
        Fault{place,
              {},
              found,
              expected,
              "delete the side-car (the token file is then read once at each start) or prepare the data "
              "again"});
  }

  std::string path_;
  toml::table table_;
};

TokenType type_named(const Reader& reader) {
  const std::string name = reader.text("dtype");
  for (const TokenType type : {TokenType::uint8, TokenType::int8, TokenType::int16, TokenType::int32,
                               TokenType::int64, TokenType::uint16, TokenType::uint32}) {
    if (name == token_type_name(type)) return type;
  }
  reader.fail_at("dtype", "uint8, int8, int16, int32, int64, uint16 or uint32");
}

// Side-cars of Megatron's files do not say so.
TokenFormat format_named(const Reader& reader) {
  if (!reader.has("format")) return TokenFormat::megatron;
  const std::string name = reader.text("format");
  for (const TokenFormat format : {TokenFormat::llm_c, TokenFormat::headerless}) {
    if (name == token_format_name(format)) return format;
  }
  reader.fail_at("format", "llm.c or headerless (nothing: megatron)");
}

std::optional<DocumentMark> mark_of(const Reader& reader) {
  if (!reader.has("document_token")) return std::nullopt;
  DocumentMark mark;
  const int64_t token = reader.integer("document_token", 0);
  if (token > std::numeric_limits<int32_t>::max()) reader.fail_at("document_token", "a token id");
  mark.token = static_cast<int32_t>(token);
  const std::string place = reader.text("document_token_place");
  if (place != "front" && place != "end")
    reader.fail_at("document_token_place", "front or end (of a document)");
  mark.in_front = place == "front";
  return mark;
}

}  // namespace

std::string side_car_path(const std::string& token_file) {
  return token_file + ".meta.toml";
}

std::optional<SideCar> read_side_car(const std::string& token_file) {
  const std::string path = side_car_path(token_file);
  if (::access(path.c_str(), F_OK) != 0) return std::nullopt;
  return parse_side_car(path, MappedFile(path).text());
}

SideCar parse_side_car(const std::string& path, std::string_view file) {
  const Reader reader(path, file);
  if (reader.integer("schema", 0) != schema) reader.fail_at("schema", fmt::format("{}", schema));
  SideCar side_car;
  side_car.format = format_named(reader);
  if (side_car.format != TokenFormat::megatron) side_car.mark = mark_of(reader);
  side_car.type = type_named(reader);
  side_car.tokens = static_cast<uint64_t>(reader.integer("tokens", 0));
  side_car.documents = static_cast<uint64_t>(reader.integer("documents", 0));
  side_car.vocabulary = reader.integer("vocabulary", 0);
  side_car.tokenizer = reader.text("tokenizer");
  side_car.largest_token = reader.integer("largest_token", -1);
  if (reader.integer("hash_block_bytes", 1) != static_cast<int64_t>(hash_block_bytes)) {
    reader.fail_at("hash_block_bytes", fmt::format("{}", hash_block_bytes));
  }
  side_car.block_hashes = reader.hashes("xxh3_64");
  return side_car;
}

std::string side_car_text(const SideCar& side_car) {
  std::string text =
      "# Facts about the token file of this name, checked before it is used. Written by penstock.\n";
  text += fmt::format("schema = {}\n", schema);
  if (side_car.format != TokenFormat::megatron)
    text += fmt::format("format = \"{}\"\n", token_format_name(side_car.format));
  if (side_car.mark) {
    text += fmt::format("document_token = {}\ndocument_token_place = \"{}\"\n", side_car.mark->token,
                        side_car.mark->in_front ? "front" : "end");
  }
  text += fmt::format("dtype = \"{}\"\ntokens = {}\ndocuments = {}\n", token_type_name(side_car.type),
                      side_car.tokens, side_car.documents);
  text += fmt::format("vocabulary = {}\ntokenizer = \"{}\"\nlargest_token = {}\nhash_block_bytes = {}\n",
                      side_car.vocabulary, side_car.tokenizer, side_car.largest_token, hash_block_bytes);
  text += "xxh3_64 = [";
  for (size_t i = 0; i < side_car.block_hashes.size(); ++i) {
    text += fmt::format("{}\n  \"{}\"", i == 0 ? "" : ",", hash_hex(side_car.block_hashes[i]));
  }
  text += side_car.block_hashes.empty() ? "]\n" : "\n]\n";
  return text;
}

void write_side_car(const std::string& token_file, const SideCar& side_car) {
  write_file(side_car_path(token_file), side_car_text(side_car));
}

std::string content_fingerprint(const SideCar& side_car) {
  ContentHash hash;
  hash.number(side_car.tokens);
  hash.number(static_cast<uint64_t>(side_car.type));
  for (const uint64_t block : side_car.block_hashes) hash.number(block);
  return hash.hex();
}

}  // namespace penstock::data
