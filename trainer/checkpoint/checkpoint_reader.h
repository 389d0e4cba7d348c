#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/checkpoint/manifest.h"
#include "trainer/checkpoint/safetensors.h"

namespace penstock::checkpoint {

/// How much of a checkpoint is checked. quick: the manifest's hash, every shard's presence, size and head
/// against the manifest; full: the hash of every piece as well, so that no bit of any file can have changed.
enum class Depth : uint8_t { quick, full };

/// Of readers that check a checkpoint together, which this one is: `index` of `count` checks the pieces of
/// every count-th shard.
struct Share {
  int index = 0;
  int count = 1;
};

/// One thing wrong with a checkpoint.
struct Damage {
  std::string file;
  std::optional<uint64_t> offset;  ///< first byte of the damaged part
  std::string piece;               ///< "layers.0.norm.weight", with [first:end) of a part; "" for no tensor
  std::string found;
  std::string expected;
};

/// "FILE: byte OFFSET: PIECE: found FOUND, expected EXPECTED".
std::string to_string(const Damage& damage);

/// A checkpoint's folder opened for reading, its shards mapped. Movable; reading is safe from several
/// threads.
class Checkpoint {
 public:
  /// CheckpointError naming the first damage (and how many there are) if it is not whole.
  static Checkpoint open(const std::string& path, Depth depth, Share share = {});

  const std::string& path() const { return path_; }
  const Manifest& manifest() const { return manifest_; }

  /// The tensor of that name, or nullptr.
  const GlobalTensor* find(std::string_view name) const;

  /// Copies elements [offset, offset + count) of the flattened tensor to `out`. CheckpointError if there is
  /// no such tensor or it is of another type; UsageError outside its elements.
  void read(std::string_view name, DType dtype, int64_t offset, int64_t count, void* out) const;

  /// What is different between the tensors here and the expected ones, a line each: missing here, not
  /// expected, another shape or type.
  std::vector<std::string> differences(const std::vector<TensorDescription>& expected) const;

 private:
  friend std::vector<Damage> verify(const std::string& path, Depth depth);
  Checkpoint() = default;
  static Checkpoint inspect(const std::string& path, Depth depth, Share share, std::vector<Damage>& damages);
  void open_shards(std::vector<Damage>& damages);
  void check_places(std::vector<Damage>& damages) const;
  void check_hashes(Share share, std::vector<Damage>& damages) const;
  void check_for_others(std::vector<Damage>& damages) const;

  std::string path_;
  Manifest manifest_;
  std::map<size_t, SafetensorsFile> shards_;  ///< by index into the manifest's; the damaged ones are absent
};

/// The folders of complete checkpoints in a run's `checkpoints`, newest first; none where it does not exist.
/// CheckpointError if it cannot be read.
std::vector<std::string> newest_first(const std::string& checkpoints);

/// Everything that is wrong with the checkpoint in folder `path`; empty for a whole one.
std::vector<Damage> verify(const std::string& path, Depth depth);

/// A checkpoint in a run's folder and what is wrong with it, if anything.
struct Listed {
  int64_t step = 0;
  std::string path;
  std::string problem;  ///< "" for a whole one
};

/// The checkpoints in a run's `checkpoints` folder, by step; empty where the folder does not exist.
/// CheckpointError if it cannot be read.
std::vector<Listed> list(const std::string& checkpoints, Depth depth);

/// The newest whole checkpoint, and what was wrong with the newer ones.
struct Latest {
  std::optional<Checkpoint> checkpoint;  ///< nothing where there is none at all
  std::vector<std::string> passed_over;
};

/// The words for a folder where all checkpoints are damaged, each as said: a run must not silently start
/// again from step 0.
std::string only_damaged(const std::string& checkpoints, const std::vector<std::string>& damaged);

/// CheckpointError if there are checkpoints, but only damaged ones.
Latest latest(const std::string& checkpoints, Depth depth);

}  // namespace penstock::checkpoint
