#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "kernels/device/dtype.h"
#include "kernels/device/tensor.h"

namespace penstock::checkpoint {

/// A file of a checkpoint. Hashes are XXH3, 64 bits, as 16 hexadecimal digits. `head` is all before its first
/// tensor: length and JSON of a safetensors file.
struct Shard {
  std::string file;  ///< name within the checkpoint's folder
  uint64_t bytes = 0;
  uint64_t head_bytes = 0;
  std::string head_hash;
};

/// Elements [offset, offset + count) of a flattened global tensor, at byte `begin` of a shard.
struct Piece {
  size_t shard = 0;  ///< index into Manifest::shards
  int64_t offset = 0;
  int64_t count = 0;
  uint64_t begin = 0;
  std::string hash;
};

/// What a tensor is, wherever its elements lie.
struct TensorDescription {
  std::string name;
  DType dtype = DType::fp32;
  Shape shape;
};

/// A tensor of the whole model; its pieces are in the order of their elements and cover each exactly once.
struct GlobalTensor : TensorDescription {
  std::vector<Piece> pieces;
};

/// All that a checkpoint says besides the tensors' values.
struct Manifest {
  int64_t step = 0;
  uint64_t attempt = 0;
  uint64_t samples = 0;  ///< consumed so far
  std::string data_fingerprint;
  std::string job;      ///< the resolved job file
  std::string program;  ///< name and version of the program that wrote it
  /// Small named values that continue the run (contract C2): together with the tensors, all of its state.
  std::map<std::string, nlohmann::json> state;
  std::vector<Shard> shards;
  std::vector<GlobalTensor> tensors;  ///< sorted by name
};

/// The file's text: a hash, then the manifest that it is the hash of. UsageError if a state value would not
/// come back as it went in (NaN and infinities have no JSON) or a text is not UTF-8.
std::string to_text(const Manifest& manifest);

/// Reads it back; `file` is for messages. CheckpointError for anything damaged, inconsistent or of another
/// format.
Manifest manifest_from_text(const std::string& file, std::string_view text);

/// The first reason why the pieces are not each element of the tensor exactly once, or "".
std::string coverage_fault(const GlobalTensor& tensor);

}  // namespace penstock::checkpoint
