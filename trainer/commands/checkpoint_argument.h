#pragma once

#include <string>

#include "trainer/checkpoint/checkpoint_reader.h"

namespace penstock::commands {

/// What a path given to a `penstock checkpoint` command is.
enum class CheckpointPlace { checkpoint, run };

/// CheckpointError, saying what was looked for, where the path is neither a checkpoint's folder nor a run's.
CheckpointPlace place_of(const std::string& path);

/// The `checkpoints` folder of a run's folder.
std::string checkpoints_of(const std::string& run);

/// The checkpoint, or the newest whole one of the run, checked to the last bit; newer ones that are damaged
/// are named on standard error. CheckpointError if there is none.
checkpoint::Checkpoint open_checkpoint(const std::string& path);

}  // namespace penstock::commands
