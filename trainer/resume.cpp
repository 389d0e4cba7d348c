#include "trainer/resume.h"

#include <fmt/format.h>

#include "trainer/checkpoint/checkpoint_error.h"
#include "trainer/job/read_job.h"
#include "trainer/job/write_job.h"

namespace penstock {
namespace {

using checkpoint::Checkpoint;
using checkpoint::CheckpointError;
using checkpoint::Depth;

// Where the next step's samples begin follows from the steps done.
void check_samples(const Checkpoint& checkpoint, const Job& stored) {
  const checkpoint::Manifest& manifest = checkpoint.manifest();
  const auto expected = static_cast<uint64_t>(manifest.step) * static_cast<uint64_t>(stored.batch.global);
  if (manifest.samples == expected) return;
  throw CheckpointError(
      fmt::format("{}: found {} samples after {} steps, expected {}, as its batch.global = {}",
                  checkpoint.path(), manifest.samples, manifest.step, expected, stored.batch.global));
}

// What of the stored job and data stands in the way of going on.
std::string obstacles(const Job& job, const Checkpoint& checkpoint, const std::string& data_fingerprint) {
  const checkpoint::Manifest& manifest = checkpoint.manifest();
  const Job stored = parse_job(manifest.job, "the checkpoint's job", {});
  check_samples(checkpoint, stored);
  if (manifest.state.count(imported_state) > 0) return to_text(refused_after_import(stored, job));
  std::string text = to_text(refused_on_resume(stored, job));
  // Other data under the same names; a job that names other data has said so already.
  if (text.empty() && manifest.data_fingerprint != data_fingerprint) {
    text = fmt::format("  the token files' contents or order: fingerprint {} → {}\n",
                       manifest.data_fingerprint, data_fingerprint);
  }
  return text;
}

Checkpoint open_at(const std::string& path) {
  try {
    return Checkpoint::open(path, Depth::full);
  } catch (const CheckpointError& error) {
    throw CheckpointError(fmt::format("run.resume = \"{}\": {}", path, error.what()));
  }
}

}  // namespace

ResumePoint find_resume_point(const Job& job, const RunPaths& paths, const std::string& data_fingerprint,
                              bool accept_changes) {
  ResumePoint point;
  const std::string checkpoints = paths.checkpoints().string();
  const std::string& wish = job.run.resume;
  if (wish == "never") {
    const auto there = checkpoint::list(checkpoints, Depth::quick);
    if (there.empty()) return point;
    throw ResumeError(
        fmt::format("run.resume is \"never\", but {} holds checkpoints up to step {}, which this run would "
                    "overwrite; give it another run.name, or delete them",
                    checkpoints, there.back().step));
  }
  checkpoint::Latest latest = checkpoint::latest(checkpoints, Depth::full);
  for (const std::string& damaged : latest.passed_over) point.notes.push_back("passed over: " + damaged);
  if (latest.checkpoint) {
    point.checkpoint = std::move(latest.checkpoint);
  } else if (wish == "must") {
    throw CheckpointError(fmt::format("run.resume is \"must\", but {} holds no checkpoint", checkpoints));
  } else if (wish != "auto") {
    point.checkpoint = open_at(wish);
  }
  if (!point.checkpoint) return point;

  point.step = point.checkpoint->manifest().step;
  const std::string changes = obstacles(job, *point.checkpoint, data_fingerprint);
  if (!changes.empty() && !accept_changes) {
    throw ResumeError(
        fmt::format("{} was written by another job; it would not go on as it began:\n{}"
                    "change the job back, give it another run.name, or pass --accept-changes",
                    point.checkpoint->path(), changes));
  }
  if (!changes.empty()) point.notes.push_back("accepted changes:\n" + changes);
  return point;
}

ResumePoint share_resume_point(transport::World& world, ResumePoint point) {
  const std::string path = world.broadcast(point.checkpoint ? point.checkpoint->path() : std::string(), 0);
  if (world.rank() == 0 || path.empty()) return point;
  point.checkpoint = Checkpoint::open(path, Depth::quick);  // rank 0 has read every byte
  point.step = point.checkpoint->manifest().step;
  return point;
}

}  // namespace penstock
