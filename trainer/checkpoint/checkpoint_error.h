#pragma once

#include <stdexcept>

namespace penstock::checkpoint {

/// No checkpoint can be used: damaged, incomplete, of another format. The program's exit code for it is 4.
class CheckpointError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;

  static constexpr int exit_code = 4;
};

/// A checkpoint could not be written (disk full, no permission, fenced off by a newer attempt); those already
/// there are intact. The program's exit code for it is 6 where the job says to stop on it.
class SaveError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;

  static constexpr int exit_code = 6;
};

/// This attempt of a run must not save any more: a newer one has started. Whatever the job says of failed
/// saves, it should end.
class FencedError : public SaveError {
 public:
  using SaveError::SaveError;
};

}  // namespace penstock::checkpoint
