#pragma once

#include <cstdint>
#include <string>

namespace penstock::checkpoint {

/// Takes the next attempt number for a run's `checkpoints` folder and makes it durable there (file
/// `attempt`). DataError if it cannot.
uint64_t take_next_attempt(const std::string& checkpoints);

/// The newest attempt of all; 0 before the first. DataError if it cannot be told.
uint64_t newest_attempt(const std::string& checkpoints);

/// An exclusive lock on a run's `checkpoints` folder among the processes that start or commit in it.
class FolderLock {
 public:
  /// DataError if it cannot be had within 30 s.
  explicit FolderLock(const std::string& checkpoints);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int fd_ = -1;
};

/// While it lives, no newer attempt can start in `checkpoints`; between its constructor's check and its end,
/// what an attempt renames there is the newest attempt's.
class AttemptFence {
 public:
  /// FencedError if a newer attempt has started.
  AttemptFence(const std::string& checkpoints, uint64_t attempt);

 private:
  FolderLock lock_;
};

}  // namespace penstock::checkpoint
