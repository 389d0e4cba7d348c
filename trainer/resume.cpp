#include "trainer/resume.h"

#include <filesystem>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "parallel/schedule/catalogue.h"
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
std::string obstacles(const Job& job, const Job& stored, const checkpoint::Manifest& manifest,
                      const std::string& data_fingerprint) {
  if (manifest.state.count(imported_state) > 0) return to_text(refused_after_import(stored, job));
  std::string text = to_text(refused_on_resume(stored, job));
  // Other data under the same names; a job that names other data has said so already.
  if (text.empty() && manifest.data_fingerprint != data_fingerprint) {
    text = fmt::format("  the token files' contents or order: fingerprint {} → {}\n",
                       manifest.data_fingerprint, data_fingerprint);
  }
  return text;
}

// Bits are those of one number of replicas: a run that goes on with another says so.
std::string other_replicas(const Job& stored, const Job& now) {
  const auto summands = [](const Job& job) {
    return job.parallel.data * schedule::copies_of(job.parallel.schedule);
  };
  const int64_t before = summands(stored);
  if (before <= 0 || before == summands(now)) return "";
  return fmt::format(
      "gradients of {} replicas (or copies of the weights) are summed from here on, of {} until now: what "
      "follows is as right, but not bit for bit what {} would have gone on to",
      summands(now), before, before);
}

// Rank 0's: what may be gone on from, in the order of preference.
std::vector<std::string> candidates(const Job& job, const RunPaths& paths) {
  const std::string checkpoints = paths.checkpoints().string();
  const std::string& wish = job.run.resume;
  std::vector<std::string> found = checkpoint::newest_first(checkpoints);
  if (wish == "never" && !found.empty()) {
    throw ResumeError(
        fmt::format("run.resume is \"never\", but {} holds checkpoints up to {}, which this run would "
                    "overwrite; give it another run.name, or delete them",
                    checkpoints, std::filesystem::path(found.front()).filename().string()));
  }
  if (wish == "must" && found.empty())
    throw CheckpointError(fmt::format("run.resume is \"must\", but {} holds no checkpoint", checkpoints));
  const bool is_path = wish != "auto" && wish != "must" && wish != "never";
  if (is_path && found.empty()) found.push_back(wish);
  return found;
}

// The checkpoint at `path`, if it is whole: every rank checks its share of it. `problem`: why not, the same
// on all.
std::optional<Checkpoint> open_together(const std::string& path, transport::World& world,
                                        std::string& problem) {
  std::optional<Checkpoint> checkpoint;
  std::string mine;
  try {
    checkpoint = Checkpoint::open(path, Depth::full, {world.rank(), world.size()});
  } catch (const CheckpointError& error) {
    mine = error.what();
  }
  problem.clear();
  for (const std::string& each : world.all_gather(mine)) {
    if (problem.empty()) problem = each;
  }
  if (!problem.empty()) checkpoint.reset();
  return checkpoint;
}

/// The first of rank 0's candidates that is whole, the same on every rank.
struct FirstWhole {
  std::optional<Checkpoint> checkpoint;
  std::vector<std::string> damaged;  ///< what was wrong with those before it
};

FirstWhole first_whole(const std::vector<std::string>& candidates, transport::World& world) {
  FirstWhole found;
  std::istringstream paths(world.broadcast(fmt::format("{}", fmt::join(candidates, "\n")), 0));
  for (std::string path; !found.checkpoint && std::getline(paths, path);) {
    std::string problem;
    found.checkpoint = open_together(path, world, problem);
    if (!found.checkpoint) found.damaged.push_back(problem);
  }
  return found;
}

}  // namespace

ResumePoint newest_point(const std::string& checkpoints, const std::string& origin, transport::World& world) {
  const bool leads = world.rank() == 0;
  std::vector<std::string> candidates;
  if (leads) candidates = checkpoint::newest_first(checkpoints);
  if (leads && candidates.empty() && !origin.empty()) candidates.push_back(origin);
  FirstWhole found = first_whole(candidates, world);
  ResumePoint point;
  if (!found.checkpoint && !found.damaged.empty() && leads)
    throw CheckpointError(checkpoint::only_damaged(checkpoints, found.damaged));
  if (!found.checkpoint) return point;
  point.checkpoint = std::move(found.checkpoint);
  point.step = point.checkpoint->manifest().step;
  for (const std::string& each : found.damaged) point.notes.push_back("passed over: " + each);
  return point;
}

ResumePoint find_resume_point(const Job& job, const RunPaths& paths, const std::string& data_fingerprint,
                              bool accept_changes, transport::World& world) {
  ResumePoint point;
  const bool leads = world.rank() == 0;
  FirstWhole found = first_whole(leads ? candidates(job, paths) : std::vector<std::string>(), world);
  point.checkpoint = std::move(found.checkpoint);
  const std::vector<std::string>& damaged = found.damaged;
  if (!point.checkpoint) {
    if (damaged.empty() || !leads) return point;
    const bool at_path = checkpoint::newest_first(paths.checkpoints().string()).empty();
    throw CheckpointError(at_path ? fmt::format("run.resume = \"{}\": {}", job.run.resume, damaged.front())
                                  : checkpoint::only_damaged(paths.checkpoints().string(), damaged));
  }
  point.step = point.checkpoint->manifest().step;
  if (!leads) return point;
  for (const std::string& each : damaged) point.notes.push_back("passed over: " + each);
  const checkpoint::Manifest& manifest = point.checkpoint->manifest();
  const Job stored = parse_job(manifest.job, "the checkpoint's job", {});
  check_samples(*point.checkpoint, stored);
  const std::string changes = obstacles(job, stored, manifest, data_fingerprint);
  if (!changes.empty() && !accept_changes) {
    throw ResumeError(
        fmt::format("{} was written by another job; it would not go on as it began:\n{}"
                    "change the job back, give it another run.name, or pass --accept-changes",
                    point.checkpoint->path(), changes));
  }
  if (!changes.empty()) point.notes.push_back("accepted changes:\n" + changes);
  const bool imported = manifest.state.count(imported_state) > 0;
  if (const std::string other = other_replicas(stored, job); !imported && !other.empty())
    point.notes.push_back(other);
  return point;
}

}  // namespace penstock
