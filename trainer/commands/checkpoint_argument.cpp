#include "trainer/commands/checkpoint_argument.h"

#include <cstdio>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "trainer/checkpoint/checkpoint_error.h"
#include "trainer/checkpoint/step_folders.h"
#include "trainer/run_folder.h"

namespace penstock::commands {

using checkpoint::Checkpoint;
using checkpoint::CheckpointError;
using checkpoint::Depth;

CheckpointPlace place_of(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code unreadable;
  // A trailing slash hides the folder's name.
  const fs::path folder =
      path.empty() || fs::path(path).has_filename() ? fs::path(path) : fs::path(path).parent_path();
  // A damaged checkpoint may have lost its manifest, but it still has its name.
  if (fs::exists(folder / checkpoint::manifest_name, unreadable) ||
      (fs::is_directory(folder, unreadable) && checkpoint::parse_name(folder.filename().string()))) {
    return CheckpointPlace::checkpoint;
  }
  if (fs::is_directory(checkpoints_of(path), unreadable)) return CheckpointPlace::run;
  throw CheckpointError(fmt::format(
      "{}: found neither {} nor a folder \"checkpoints\", expected a checkpoint's folder or a run's", path,
      checkpoint::manifest_name));
}

std::string checkpoints_of(const std::string& run) {
  return RunPaths(run).checkpoints().string();
}

Checkpoint open_checkpoint(const std::string& path) {
  if (place_of(path) == CheckpointPlace::checkpoint) return Checkpoint::open(path, Depth::full);
  checkpoint::Latest latest = checkpoint::latest(checkpoints_of(path), Depth::full);
  for (const std::string& damage : latest.passed_over)
    fmt::print(stderr, "penstock: warning: passed over a damaged checkpoint: {}\n", damage);
  if (!latest.checkpoint) {
    throw CheckpointError(
        fmt::format("{}: found no checkpoint, expected one or more step-… folders", checkpoints_of(path)));
  }
  return std::move(*latest.checkpoint);
}

}  // namespace penstock::commands
