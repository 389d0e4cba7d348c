#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/model_section.h"
#include "trainer/hugging_face/architecture.h"

namespace penstock::hugging_face {

/// A tensor of a Hugging Face folder, as it lies in one of our parameters: rows × columns of it (a vector has
/// one column).
struct Part {
  std::string name;
  int64_t rows = 0;
  int64_t columns = 1;
  bool is_vector = false;
  bool transposed = false;  ///< stored as (columns, rows): GPT-2's Conv1D

  int64_t elements() const { return rows * columns; }
  /// Extents as the file has them.
  std::vector<uint64_t> stored_shape() const;
};

/// One of our parameters: its parts lie one below the other, and what is left below them pads the vocabulary
/// with zeros.
struct MappedParameter {
  std::string name;
  int64_t elements = 0;
  std::vector<Part> parts;
};

struct TensorMap {
  std::vector<MappedParameter> parameters;  ///< all of model_parameters(), in its order
  /// Biases that the class has and the model has not: written as zeros, and read only if they are zeros.
  std::vector<Part> zeros;
};

/// Which tensors a model of this class has, and where their values belong.
///
/// GPT-2 stores (in, out) matrices with queries, keys and values side by side; the others (out, in) with a
/// matrix each for queries, keys, values, gate and up. Both rotate the halves of a head, as we do, so that no
/// row moves.
TensorMap tensor_map(const ModelSection& model, Architecture architecture);

/// The head's weight, of a model that does not share it with the embedding.
inline constexpr const char* head_name = "lm_head.weight";
/// The token embedding's.
const char* embedding_name(Architecture architecture);
/// What stands before every other name; folders written from the model without its head lack it.
const char* name_prefix(Architecture architecture);

}  // namespace penstock::hugging_face
