#include "trainer/checkpoint/manifest.h"

#include <limits>
#include <utility>

#include <fmt/format.h>

#include "data/content_hash.h"
#include "data/json/json_fault.h"
#include "kernels/device/error.h"
#include "trainer/checkpoint/checkpoint_error.h"
#include "trainer/checkpoint/stored_type.h"

namespace penstock::checkpoint {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int format_version = 1;

// The file is `before_hash HASH before_body BODY after_body`, and HASH is that of BODY's bytes: as a whole
// valid JSON, yet no bit of it can change unseen.
constexpr std::string_view before_hash = "{\"xxh3\": \"";
constexpr std::string_view before_body = "\",\n\"manifest\": ";
constexpr std::string_view after_body = "}\n";
constexpr size_t hash_digits = 16;

class ManifestParser {
 public:
  explicit ManifestParser(const std::string& file) : file_(file) {}

  Manifest parse(std::string_view text) const {
    const std::string_view body = checked_body(text);
    try {
      return read(json::parse(body.begin(), body.end()));
    } catch (const json::exception& error) {
      refuse(fmt::format("a manifest that cannot be read ({})", data::json_reason(error)),
             fmt::format("a manifest of format {}", format_version));
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& found, const std::string& expected) const {
    throw CheckpointError(fmt::format("{}: found {}, expected {}", file_, found, expected));
  }

  std::string_view checked_body(std::string_view text) const {
    const size_t frame = before_hash.size() + hash_digits + before_body.size();
    if (text.size() < frame + after_body.size() || text.substr(0, before_hash.size()) != before_hash ||
        text.substr(before_hash.size() + hash_digits, before_body.size()) != before_body ||
        text.substr(text.size() - after_body.size()) != after_body) {
      refuse(fmt::format("{} bytes that are no manifest", text.size()),
             "{\"xxh3\": HASH, \"manifest\": {...}}, as this program writes it");
    }
    const std::string_view body = text.substr(frame, text.size() - frame - after_body.size());
    const std::string_view stated = text.substr(before_hash.size(), hash_digits);
    const std::string actual = data::hash_hex(data::hash_bytes(body.data(), body.size()));
    if (actual != stated) refuse(fmt::format("a manifest with hash {}", actual), std::string(stated));
    return body;
  }

  // A count that fits int64_t.
  uint64_t count(const json& object, const char* key) const {
    const json& value = object.at(key);
    if (!value.is_number_unsigned() ||
        value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      refuse(fmt::format("{} = {}", key, value.dump().substr(0, 100)), "a count");
    }
    return value.get<uint64_t>();
  }

  int64_t signed_count(const json& object, const char* key) const {
    return static_cast<int64_t>(count(object, key));
  }

  Manifest read(const json& body) const {
    if (count(body, "format") != format_version) {
      refuse(fmt::format("format {}", count(body, "format")),
             fmt::format("{}; use the version of the program that wrote it", format_version));
    }
    Manifest manifest;
    manifest.step = signed_count(body, "step");
    manifest.attempt = count(body, "attempt");
    manifest.samples = count(body, "samples");
    manifest.data_fingerprint = body.at("data_fingerprint").get<std::string>();
    manifest.job = body.at("job").get<std::string>();
    manifest.program = body.at("program").get<std::string>();
    manifest.state = body.at("state").get<std::map<std::string, json>>();
    for (const json& shard : body.at("shards")) manifest.shards.push_back(read_shard(shard));
    for (const json& tensor : body.at("tensors")) {
      manifest.tensors.push_back(read_tensor(tensor, manifest.shards));
      const size_t n = manifest.tensors.size();
      if (n > 1 && manifest.tensors[n - 2].name >= manifest.tensors[n - 1].name) {
        refuse(fmt::format("tensor {} after {}", manifest.tensors[n - 1].name, manifest.tensors[n - 2].name),
               "ascending names");
      }
    }
    return manifest;
  }

  Shard read_shard(const json& entry) const {
    Shard shard{entry.at("file").get<std::string>(), count(entry, "bytes"), count(entry, "head_bytes"),
                entry.at("head_xxh3").get<std::string>()};
    if (shard.file.empty() || shard.file.front() == '.' || shard.file.find('/') != std::string::npos) {
      refuse(fmt::format("shard \"{}\"", shard.file), "the name of a file in the checkpoint's folder");
    }
    if (shard.head_bytes > shard.bytes) {
      refuse(fmt::format("shard {} with a head of {} bytes", shard.file, shard.head_bytes),
             fmt::format("at most its {} bytes", shard.bytes));
    }
    return shard;
  }

  GlobalTensor read_tensor(const json& entry, const std::vector<Shard>& shards) const {
    GlobalTensor tensor;
    tensor.name = entry.at("name").get<std::string>();
    const auto type = stored_type(entry.at("dtype").get_ref<const std::string&>());
    const auto dtype = type ? dtype_of(*type) : std::nullopt;
    if (!dtype) {
      refuse(fmt::format("tensor {} of {}", tensor.name, entry.at("dtype").dump()), "a known element type");
    }
    tensor.dtype = *dtype;
    tensor.shape = read_shape(tensor.name, entry.at("shape"));
    for (const json& piece : entry.at("pieces")) {
      tensor.pieces.push_back(Piece{count(piece, "shard"), signed_count(piece, "offset"),
                                    signed_count(piece, "count"), count(piece, "begin"),
                                    piece.at("xxh3").get<std::string>()});
      check_place(tensor, shards);
    }
    const std::string fault = coverage_fault(tensor);
    if (!fault.empty()) refuse(fault, "pieces that hold each element once, in order");
    return tensor;
  }

  Shape read_shape(const std::string& name, const json& extents) const {
    Shape shape;
    if (!extents.is_array() || extents.size() > shape.extent.size()) {
      refuse(fmt::format("tensor {} with shape {}", name, extents.dump().substr(0, 100)),
             "up to four extents");
    }
    uint64_t elements = 1;
    for (const json& extent : extents) {
      if (!extent.is_number_unsigned() ||
          __builtin_mul_overflow(elements, extent.get<uint64_t>(), &elements) ||
          elements > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / 8 ||
          extent.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        refuse(fmt::format("tensor {} with shape {}", name, extents.dump().substr(0, 100)),
               "extents whose bytes fit 64 bits");
      }
      shape.extent[static_cast<size_t>(shape.rank++)] = extent.get<int64_t>();
    }
    return shape;
  }

  void check_place(const GlobalTensor& tensor, const std::vector<Shard>& shards) const {
    const Piece& piece = tensor.pieces.back();
    uint64_t bytes = 0;
    if (piece.shard >= shards.size() ||
        __builtin_mul_overflow(static_cast<uint64_t>(piece.count), size_of(tensor.dtype), &bytes) ||
        piece.begin < shards[piece.shard].head_bytes || piece.begin > shards[piece.shard].bytes ||
        bytes > shards[piece.shard].bytes - piece.begin) {
      refuse(fmt::format("tensor {} with {} elements at byte {} of shard {}", tensor.name, piece.count,
                         piece.begin, piece.shard),
             "a place within one of the shards");
    }
  }

  const std::string& file_;
};

ordered_json piece_json(const Piece& piece) {
  return {{"shard", piece.shard},
          {"offset", piece.offset},
          {"count", piece.count},
          {"begin", piece.begin},
          {"xxh3", piece.hash}};
}

}  // namespace

std::string to_text(const Manifest& manifest) {
  ordered_json body;
  body["format"] = format_version;
  body["step"] = manifest.step;
  body["attempt"] = manifest.attempt;
  body["samples"] = manifest.samples;
  body["data_fingerprint"] = manifest.data_fingerprint;
  body["program"] = manifest.program;
  body["state"] = ordered_json::object();
  std::string text;
  try {
    for (const auto& [name, value] : manifest.state) {
      if (json::parse(value.dump()) != value) {
        throw UsageError(
            fmt::format("state {} = {} would not come back from JSON as it is", name, value.dump()));
      }
      body["state"][name] = value;
    }
    body["job"] = manifest.job;
    body["shards"] = ordered_json::array();
    for (const Shard& shard : manifest.shards) {
      body["shards"].push_back({{"file", shard.file},
                                {"bytes", shard.bytes},
                                {"head_bytes", shard.head_bytes},
                                {"head_xxh3", shard.head_hash}});
    }
    body["tensors"] = ordered_json::array();
    for (const GlobalTensor& tensor : manifest.tensors) {
      ordered_json row{{"name", tensor.name}, {"dtype", name_of(stored_type(tensor.dtype))}};
      row["shape"] = ordered_json::array();
      for (int axis = 0; axis < tensor.shape.rank; ++axis) row["shape"].push_back(tensor.shape[axis]);
      row["pieces"] = ordered_json::array();
      for (const Piece& piece : tensor.pieces) row["pieces"].push_back(piece_json(piece));
      body["tensors"].push_back(std::move(row));
    }
    text = body.dump(1);
  } catch (const json::exception& error) {
    throw UsageError(fmt::format("the manifest of step {} cannot be written as JSON: {}", manifest.step,
                                 data::json_reason(error)));
  }
  return fmt::format("{}{}{}{}{}", before_hash, data::hash_hex(data::hash_bytes(text.data(), text.size())),
                     before_body, text, after_body);
}

Manifest manifest_from_text(const std::string& file, std::string_view text) {
  return ManifestParser(file).parse(text);
}

std::string coverage_fault(const GlobalTensor& tensor) {
  const int64_t elements = tensor.shape.elements();
  int64_t end = 0;
  for (const Piece& piece : tensor.pieces) {
    if (piece.offset != end || piece.count < 0 || piece.count > elements - end) {
      return fmt::format("tensor {} {}: a piece with elements [{}, {} + {}) where {} of {} are held",
                         tensor.name, to_string(tensor.shape), piece.offset, piece.offset, piece.count, end,
                         elements);
    }
    end += piece.count;
  }
  if (end != elements || tensor.pieces.empty()) {
    return fmt::format("tensor {} {}: {} of {} elements held", tensor.name, to_string(tensor.shape), end,
                       elements);
  }
  return "";
}

}  // namespace penstock::checkpoint
