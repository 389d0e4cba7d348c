#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "data/mapped_file.h"
#include "trainer/checkpoint/stored_type.h"

namespace penstock::checkpoint {

/// A tensor of a safetensors file. `begin` and `end` are bytes from the file's start.
struct StoredTensor {
  std::string name;
  StoredType type = StoredType::f32;
  std::vector<uint64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

/// What stands before the data: `head` is the length, the JSON and its padding, exactly as in the file.
struct SafetensorsLayout {
  std::string head;
  std::vector<StoredTensor> tensors;  ///< in the order of their bytes
  uint64_t file_bytes = 0;
};

/// Places tensors (of each only name, type and shape are read) by alignment, widest first, then by name; the
/// data start at a multiple of 8. Names must differ and shapes must not overflow: UsageError.
SafetensorsLayout lay_out_safetensors(std::vector<StoredTensor> tensors,
                                      const std::map<std::string, std::string>& metadata);

/// A safetensors file, mapped and checked in full except for the values: every byte belongs to exactly one
/// tensor, and every tensor has the bytes that its shape and type ask for. Movable.
class SafetensorsFile {
 public:
  /// DataError with file, offset, found and expected for anything malformed.
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  uint64_t file_bytes() const { return file_.size(); }
  /// Length, JSON and padding.
  std::string_view head() const { return file_.text().substr(0, head_bytes_); }
  /// In the order of their bytes.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// The whole file; a tensor's bytes are [begin, end) of it, aligned for its type only if the writer aligned
  /// them.
  const std::byte* bytes() const { return file_.data(); }

 private:
  data::MappedFile file_;
  uint64_t head_bytes_ = 0;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace penstock::checkpoint
