#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trainer/checkpoint/safetensors.h"
#include "trainer/hugging_face/tensor_map.h"

namespace penstock::hugging_face {

/// The tensors of a folder that transformers wrote: those of model.safetensors, or of the files that
/// model.safetensors.index.json lists. Names have their class's prefix, whether the files write it or not;
/// tables that no class reads (GPT-2's causal mask, stored rotary frequencies) are left out.
class WeightsFolder {
 public:
  /// DataError: no such files, damage, a tensor twice or not in the file that the index says.
  WeightsFolder(const std::string& folder, Architecture architecture);

  /// Everything that stands in the way of reading these tensors, a line each: missing, of another shape or an
  /// element type that is not read, and what is there beyond them.
  std::vector<std::string> problems(const std::vector<Part>& expected) const;

  bool has(const std::string& name) const { return tensors_.count(name) > 0; }
  /// The part's values, row by row as we hold them, whatever their stored type and order; a matrix that is
  /// not transposed may have more rows than are read. DataError if one is NaN or infinite. UsageError for a
  /// tensor that problems() complains about.
  void read(const Part& part, float* values) const;

  /// "F32", or "BF16 and F32".
  std::string types() const;

 private:
  struct Stored {
    size_t file = 0;
    checkpoint::StoredTensor tensor;
  };
  void open(const std::string& path);
  void check_index(const std::string& path, const std::map<std::string, std::string>& file_of) const;
  void settle_names(Architecture architecture);

  std::string folder_;
  std::vector<checkpoint::SafetensorsFile> files_;
  std::map<std::string, Stored> tensors_;
};

}  // namespace penstock::hugging_face
