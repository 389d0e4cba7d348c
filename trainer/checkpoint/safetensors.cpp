#include "trainer/checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "data/data_error.h"
#include "data/json/json_fault.h"

namespace penstock::checkpoint {
namespace {

using nlohmann::json;

constexpr uint64_t length_bytes = 8;
constexpr uint64_t longest_header = 100'000'000;
constexpr size_t deepest_nesting = 3;  // {name: {"shape": [...]}}

// The header of one file while it is being checked; every complaint knows the file and a byte in it.
class HeaderParser {
 public:
  HeaderParser(const data::MappedFile& file, std::vector<StoredTensor>& tensors,
               std::map<std::string, std::string>& metadata)
      : file_(file), tensors_(tensors), metadata_(metadata) {}

  /// Bytes before the data.
  uint64_t parse() {
    const uint64_t length = header_length();
    text_ = file_.text().substr(length_bytes, length);
    if (text_.empty() || text_.front() != '{') {
      refuse(length_bytes,
             text_.empty() ? "an empty header" : fmt::format("\"{}\"", show(text_.substr(0, 8))),
             "a JSON object, which starts with '{'");
    }
    const json header = parse_json();
    for (const auto& [name, value] : header.items()) {
      if (name == "__metadata__") {
        read_metadata(value);
      } else {
        read_tensor(name, value);
      }
    }
    check_coverage();
    return data_begin_;
  }

 private:
  [[noreturn]] void refuse(uint64_t offset, const std::string& found, const std::string& expected) const {
    throw data::DataError(data::Fault{file_.path(), offset, found, expected,
                                      "the file is damaged or no safetensors file; fetch or write it again"});
  }

  static std::string show(std::string_view bytes) {
    std::string shown;
    for (const char c : bytes) shown += c >= ' ' && c <= '~' ? c : '?';
    return shown;
  }

  uint64_t header_length() {
    if (file_.size() < length_bytes) {
      refuse(file_.size(), fmt::format("the end of the file after {} bytes", file_.size()),
             "8 bytes with the header's length");
    }
    uint64_t length = 0;
    std::memcpy(&length, file_.data(), sizeof(length));
    if (length > longest_header) {
      refuse(0, fmt::format("a header of {} bytes", length), fmt::format("at most {}", longest_header));
    }
    if (length_bytes + length > file_.size()) {
      refuse(0, fmt::format("a header of {} bytes in a file of {}", length, file_.size()),
             fmt::format("a header of at most {} bytes", file_.size() - length_bytes));
    }
    data_begin_ = length_bytes + length;
    return length;
  }

  // Where a top-level name stands in the file; the header's start if it is written with unusual escapes.
  uint64_t place_of(const std::string& name) const {
    const size_t at = text_.find(json(name).dump(-1, ' ', false, json::error_handler_t::replace));
    return length_bytes + (at == std::string_view::npos ? 0 : at);
  }

  // Names that come twice and nesting, which a parsed value does not show any more. Not by the parser's
  // callback: for every object that ends it looks through all that its parent holds.
  class Watch : public nlohmann::json_sax<json> {
   public:
    explicit Watch(const HeaderParser& parser) : parser_(parser) {}
    bool null() override { return value(); }
    bool boolean(bool /*value*/) override { return value(); }
    bool number_integer(number_integer_t /*value*/) override { return value(); }
    bool number_unsigned(number_unsigned_t /*value*/) override { return value(); }
    bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return value(); }
    bool string(string_t& /*value*/) override { return value(); }
    bool binary(binary_t& /*value*/) override { return value(); }
    bool start_object(size_t /*elements*/) override { return start(); }
    bool start_array(size_t /*elements*/) override { return start(); }
    bool end_object() override { return end(); }
    bool end_array() override { return end(); }
    bool key(string_t& name) override {
      if (names_.back().insert(name).second) return true;
      parser_.refuse(parser_.place_of(name), fmt::format("the name {} twice", name), "each name once");
    }
    // What is wrong is said by who parses once more.
    bool parse_error(size_t /*place*/, const std::string& /*token*/,
                     const json::exception& /*error*/) override {
      return false;
    }

   private:
    bool value() const {
      if (names_.size() <= deepest_nesting) return true;
      parser_.refuse(length_bytes, "values nested deeper than a tensor's entry", "name, entry, list");
    }
    bool start() {
      names_.emplace_back();
      return names_.size() - 1 <= deepest_nesting || value();
    }
    bool end() {
      names_.pop_back();
      return true;
    }

    const HeaderParser& parser_;
    std::vector<std::set<std::string>> names_;  // of what is open
  };

  json parse_json() const {
    Watch watch(*this);
    json::sax_parse(text_.begin(), text_.end(), &watch);
    try {
      return json::parse(text_.begin(), text_.end());
    } catch (const json::exception& error) {
      const data::JsonFault fault = data::json_fault(text_, error);
      refuse(length_bytes + fault.byte, fmt::format("a header that is not JSON ({})", fault.what),
             "a JSON object");
    }
  }

  void read_metadata(const json& value) {
    if (!value.is_object())
      refuse(place_of("__metadata__"), "__metadata__ that is no object", "an object of strings");
    for (const auto& [name, text] : value.items()) {
      if (!text.is_string()) {
        refuse(place_of("__metadata__"), fmt::format("__metadata__.{} = {}", name, text.dump()), "a string");
      }
      metadata_[name] = text.get<std::string>();
    }
  }

  void read_tensor(const std::string& name, const json& entry) {
    // Looked for only where it is needed: it takes a look through the whole header.
    const auto place = [&] { return place_of(name); };
    const auto field = [&](const char* key) -> const json& {
      static const json absent;
      if (!entry.is_object())
        refuse(place(), fmt::format("tensor {} = {}", name, entry.type_name()), "an object");
      const auto found = entry.find(key);
      return found == entry.end() ? absent : *found;
    };
    StoredTensor tensor;
    tensor.name = name;
    const json& type = field("dtype");
    const auto known = type.is_string() ? stored_type(type.get_ref<const std::string&>()) : std::nullopt;
    if (!known) {
      refuse(place(), fmt::format("tensor {} with dtype {}", name, type.dump()),
             "one of BOOL U8 I8 I16 U16 F16 BF16 I32 U32 F32 I64 U64 F64 F8_E4M3 F8_E5M2");
    }
    tensor.type = *known;
    tensor.shape = read_counts(name, "shape", field("shape"));
    const std::vector<uint64_t> offsets = read_counts(name, "data_offsets", field("data_offsets"));
    if (offsets.size() != 2 || offsets[0] > offsets[1]) {
      refuse(place(), fmt::format("tensor {} with data_offsets [{}]", name, fmt::join(offsets, ", ")),
             "two offsets, the second not below the first");
    }
    uint64_t bytes = size_of(tensor.type);
    for (const uint64_t extent : tensor.shape) {
      if (__builtin_mul_overflow(bytes, extent, &bytes)) {
        refuse(place(), fmt::format("tensor {} with shape [{}]", name, fmt::join(tensor.shape, ", ")),
               "a size that fits 64 bits");
      }
    }
    if (offsets[1] - offsets[0] != bytes) {
      refuse(place(), fmt::format("tensor {} with {} bytes", name, offsets[1] - offsets[0]),
             fmt::format("{} bytes for shape [{}] of {}", bytes, fmt::join(tensor.shape, ", "),
                         name_of(tensor.type)));
    }
    const uint64_t data_bytes = file_.size() - data_begin_;
    if (offsets[1] > data_bytes) {
      refuse(place(), fmt::format("tensor {} up to byte {} of the data", name, offsets[1]),
             fmt::format("at most {}, where the file ends", data_bytes));
    }
    tensor.begin = data_begin_ + offsets[0];
    tensor.end = data_begin_ + offsets[1];
    tensors_.push_back(std::move(tensor));
  }

  std::vector<uint64_t> read_counts(const std::string& name, const char* key, const json& value) const {
    std::vector<uint64_t> counts;
    bool fine = value.is_array();
    for (size_t i = 0; fine && i < value.size(); ++i) {
      fine = value[i].is_number_unsigned();
      if (fine) counts.push_back(value[i].get<uint64_t>());
    }
    if (!fine) {
      refuse(place_of(name), fmt::format("tensor {} with {} = {}", name, key, value.dump().substr(0, 200)),
             "a list of counts");
    }
    return counts;
  }

  void check_coverage() {
    std::sort(tensors_.begin(), tensors_.end(), [](const StoredTensor& a, const StoredTensor& b) {
      return std::make_pair(a.begin, a.end) < std::make_pair(b.begin, b.end);
    });
    uint64_t end = data_begin_;
    for (const StoredTensor& tensor : tensors_) {
      if (tensor.begin != end) {
        refuse(place_of(tensor.name),
               fmt::format("tensor {} from byte {} of the data ({})", tensor.name, tensor.begin - data_begin_,
                           tensor.begin < end ? "overlaps the one before" : "leaves a hole"),
               fmt::format("{}, where the one before ends", end - data_begin_));
      }
      end = tensor.end;
    }
    if (end != file_.size()) {
      refuse(end, fmt::format("{} bytes after the last tensor", file_.size() - end), "the end of the file");
    }
  }

  const data::MappedFile& file_;
  std::vector<StoredTensor>& tensors_;
  std::map<std::string, std::string>& metadata_;
  std::string_view text_;
  uint64_t data_begin_ = 0;
};

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path) {
  head_bytes_ = HeaderParser(file_, tensors_, metadata_).parse();
}

}  // namespace penstock::checkpoint
