#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/device/dtype.h"
#include "trainer/checkpoint/checkpoint_reader.h"

namespace penstock::hugging_face {

struct ExportOptions {
  std::string folder;
  DType dtype = DType::fp32;             ///< fp32 or bf16 (rounded to nearest even)
  uint64_t shard_bytes = 5'000'000'000;  ///< of values in one file, at most, unless one tensor has more
  std::string tokenizer;  ///< a tokenizer.json; empty: the job's, if it names one; "none": without
  int64_t positions = 0;  ///< max_position_embeddings; 0: the job's sequence_length
  bool replace = false;   ///< an exported model that is there
};

struct ExportResult {
  std::string architecture;  ///< "qwen2"
  std::vector<std::string> files;
  uint64_t bytes = 0;  ///< of values
  int64_t parameters = 0;
};

/// Writes a checkpoint's parameters as a folder that transformers loads: config.json, weights, and with a
/// tokenizer tokenizer.json, tokenizer_config.json and generation_config.json. Rows that pad the vocabulary
/// are left out. It appears when it is complete. CheckpointError if the checkpoint does not hold its own
/// job's model; DataError if the class has no such model or the tokenizer cannot be read; WriteError.
ExportResult export_model(const checkpoint::Checkpoint& checkpoint, const ExportOptions& options);

}  // namespace penstock::hugging_face
