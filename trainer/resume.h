#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/transport/world.h"
#include "trainer/checkpoint/checkpoint_reader.h"
#include "trainer/job/job.h"
#include "trainer/run_folder.h"

namespace penstock {

/// The job and the checkpoint that it should go on from do not belong together; exit code ExitCode::usage.
class ResumeError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// In a checkpoint's state: what the model was imported from. A run may start from such a checkpoint with any
/// job that has its model.
inline constexpr const char* imported_state = "imported";

/// Where a run starts.
struct ResumePoint {
  std::optional<checkpoint::Checkpoint> checkpoint;  ///< absent: from step 0
  int64_t step = 0;                                  ///< steps completed
  std::vector<std::string> notes;  ///< rank 0's: damaged checkpoints passed over, what goes on otherwise
};

/// Chooses the checkpoint that run.resume asks for, the same on every rank:
///   auto    the newest whole one; from step 0 where there is none; CheckpointError where all are damaged
///   must    as auto, but CheckpointError where there is none
///   never   from step 0; ResumeError where the folder holds checkpoints, which the run would overwrite
///   a path  the run's own newest, else the checkpoint at that path
/// Every byte of it is verified, each by one rank. A job that differs from the stored one in more than steps,
/// log, evaluation, checkpoint, parallel or recompute, or that reads other data, is a ResumeError with the
/// differences unless `accept_changes`; from an imported model, a job with another model. Collective; errors
/// are rank 0's, and `data_fingerprint` too.
ResumePoint find_resume_point(const Job& job, const RunPaths& paths, const std::string& data_fingerprint,
                              bool accept_changes, transport::World& world);

/// The newest whole checkpoint of a run's folder of them, else the one at `origin` (empty: none), else step
/// 0; the same on every rank. Every byte of it is verified. Collective; what is given is rank 0's, and so are
/// errors: CheckpointError where there are only damaged ones.
ResumePoint newest_point(const std::string& checkpoints, const std::string& origin, transport::World& world);

}  // namespace penstock
