#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/device/tensor.h"
#include "trainer/checkpoint/checkpoint_reader.h"
#include "trainer/checkpoint/manifest.h"

namespace penstock::checkpoint {

/// Host memory to be saved: elements [offset, offset + count) of the flattened tensor `name`, whose shape is
/// that of the whole model's. The memory must not change until the shard is written.
struct Source : TensorDescription {
  int64_t offset = 0;
  int64_t count = 0;
  const void* data = nullptr;
};

/// A whole tensor as a source.
Source whole(std::string name, const Tensor& tensor);

/// What one rank wrote: its shard and, in the order of their bytes, whose elements it holds.
struct ShardEntry {
  Shard shard;
  struct Held : TensorDescription {
    Piece piece;  ///< its `shard` is set when the entries are merged
  };
  std::vector<Held> held;
};

/// The text of an entry, for the way from its rank to rank 0, and back (CheckpointError if it is no entry).
std::string to_text(const ShardEntry& entry);
ShardEntry shard_entry_from_text(std::string_view text);

/// Bytes of the shard that holds `sources`.
uint64_t shard_bytes(const std::vector<Source>& sources);

/// Called by who writes a shard between two of its blocks (4 MiB); what it throws ends the writing.
using BetweenBlocks = std::function<void()>;

/// Writes and fsyncs `folder`/shard-<index>.safetensors. DataError if it cannot.
ShardEntry write_shard(const std::string& folder, int index, const std::vector<Source>& sources,
                       const BetweenBlocks& between_blocks = {});

/// The global tensors of all shards, by name. UsageError where ranks disagree on a tensor or hold an element
/// not at all or twice.
std::vector<GlobalTensor> merge(const std::vector<ShardEntry>& entries);

/// What starting an attempt did.
struct Claim {
  uint64_t attempt = 0;
  std::vector<std::string> notes;  ///< leftovers deleted, kept or put back: a line each for the log
};

/// Rank 0, before anything else is read or written there: makes the folder where it is missing, takes the
/// next attempt number (from now on an older attempt that is still alive cannot commit) and removes what
/// killed attempts left behind. SaveError if the folder cannot be written.
Claim claim_attempt(const std::string& checkpoints);

/// What is not kept, newest first: all but the `keep_last` newest whole checkpoints up to `step`, and those
/// whose step is a multiple of `keep_every_steps` (0: none more). Never newer ones or damaged ones.
/// CheckpointError if the folder cannot be read.
std::vector<Listed> surplus(const std::string& checkpoints, int64_t step, int keep_last,
                            int64_t keep_every_steps);

/// Writes checkpoints for one attempt. A save is begin() on rank 0, write() on every rank, commit() on rank 0
/// with everybody's entries; until commit() renames the folder into place, the earlier checkpoints are all
/// there is. Functions of a save throw SaveError and then leave the earlier checkpoints intact (UsageError
/// for tensors or state that cannot be saved); they may be called from any thread, one save at a time.
class CheckpointWriter {
 public:
  CheckpointWriter(std::string checkpoints, uint64_t attempt);

  /// Makes the save's temporary folder.
  void begin(int64_t step) const;
  /// Writes a rank's shard into it.
  ShardEntry write(int64_t step, int rank, const std::vector<Source>& sources,
                   const BetweenBlocks& between_blocks = {}) const;
  /// Completes `manifest` (attempt, shards, tensors) from the entries, writes it, asks whether this attempt
  /// is still the newest, and renames the folder into place; a checkpoint of the same step is replaced.
  void commit(Manifest manifest, const std::vector<ShardEntry>& entries) const;
  /// Deletes what a failed save left, to give its space back; errors of this are ignored, the next attempt
  /// cleans.
  void abandon(int64_t step) const noexcept;
  /// After a commit of `step`: deletes surplus() checkpoints, but nothing that the run did not write, and
  /// nothing if a newer attempt has started. A line for each folder that it deleted or could not delete;
  /// CheckpointError if the folder cannot be read.
  std::vector<std::string> prune(int64_t step, int keep_last, int64_t keep_every_steps) const;

 private:
  std::string temporary(int64_t step) const;
  void put_in_place(int64_t step) const;
  std::string delete_checkpoint(const Listed& old) const;

  std::string checkpoints_;
  uint64_t attempt_;
};

}  // namespace penstock::checkpoint
