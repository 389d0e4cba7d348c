#include "trainer/checkpoint/checkpoint_writer.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <set>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/data_error.h"
#include "data/file_writer.h"
#include "trainer/checkpoint/attempt_fence.h"
#include "trainer/checkpoint/checkpoint_error.h"
#include "trainer/checkpoint/checkpoint_reader.h"
#include "trainer/checkpoint/step_folders.h"

namespace penstock::checkpoint {
namespace {

namespace fs = std::filesystem;
using Kind = StepFolder::Kind;

// Runs one part of a save; what fails in it says which step, and that nothing older was lost.
template <class Work>
auto saving(int64_t step, const std::string& checkpoints, Work work) {
  try {
    return work();
  } catch (const data::DataError& error) {
    throw SaveError(
        fmt::format("the checkpoint of step {} was not saved: {}; earlier checkpoints in {} are intact", step,
                    error.what(), checkpoints));
  }
}

void make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) != 0) throw data::system_error(path, "make the folder", errno);
}

void make_empty_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) throw data::system_error(path, "create it", errno);
  if (::close(fd) != 0 && errno != EINTR) throw data::system_error(path, "close it", errno);
}

// Deletes what nobody needs any more. Where that fails the next attempt does it.
void discard(const std::string& folder) noexcept {
  try {
    static_cast<void>(remove_folder(folder));
  } catch (const std::exception& error) {
    static_cast<void>(error);
  }
}

bool exists(const std::string& path) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0;
}

// Other ranks wrote shards on their own hosts; here they must be seen, whole, before the manifest vouches for
// them.
void check_shards_are_seen(const std::string& folder, const std::vector<Shard>& shards) {
  for (const Shard& shard : shards) {
    const std::string path = folder + "/" + shard.file;
    struct stat status = {};
    if (::stat(path.c_str(), &status) != 0) {
      throw data::system_error(
          path, "find the shard on rank 0's host (is the run folder on a shared file system?)", errno);
    }
    if (static_cast<uint64_t>(status.st_size) != shard.bytes) {
      throw data::DataError(data::Fault{path,
                                        {},
                                        fmt::format("{} bytes", status.st_size),
                                        fmt::format("{}, as its rank wrote them", shard.bytes),
                                        "look for another writer or a failing file system"});
    }
  }
}

// An attempt that was killed while it replaced or deleted a checkpoint: the old one goes back if none took
// its place.
std::string clean_outgoing(const std::string& checkpoints, const StepFolder& folder) {
  const std::string home = checkpoints + "/" + name_of(Kind::complete, folder.step, 0);
  if (!exists(home) && exists(folder.path + "/" + std::string(manifest_name))) {
    data::rename_durably(folder.path, home);
    return fmt::format("put {} back: attempt {} was killed before it had replaced or deleted it", home,
                       folder.attempt);
  }
  const std::string reason = remove_folder(folder.path);
  return reason.empty() ? fmt::format("deleted {}, left by attempt {}", folder.path, folder.attempt)
                        : "left over, not deleted: " + reason;
}

}  // namespace

Claim claim_attempt(const std::string& checkpoints) {
  try {
    std::error_code error;
    fs::create_directories(checkpoints, error);
    if (error) throw data::system_error(checkpoints, "make the folder", error.value());
    Claim claim;
    claim.attempt = take_next_attempt(checkpoints);
    for (const StepFolder& folder : scan(checkpoints)) {
      if (folder.kind == Kind::outgoing) {
        claim.notes.push_back(clean_outgoing(checkpoints, folder));
      } else if (folder.kind == Kind::temporary) {
        const std::string reason = remove_folder(folder.path);
        claim.notes.push_back(reason.empty()
                                  ? fmt::format("deleted the unfinished checkpoint {}", folder.path)
                                  : "left over, not deleted: " + reason);
      }
    }
    return claim;
  } catch (const data::DataError& error) {
    throw SaveError(fmt::format("checkpoints cannot be saved: {}", error.what()));
  }
}

CheckpointWriter::CheckpointWriter(std::string checkpoints, uint64_t attempt)
    : checkpoints_(std::move(checkpoints)), attempt_(attempt) {}

std::string CheckpointWriter::temporary(int64_t step) const {
  return checkpoints_ + "/" + name_of(Kind::temporary, step, attempt_);
}

void CheckpointWriter::begin(int64_t step) const {
  saving(step, checkpoints_, [&] {
    const std::string folder = temporary(step);
    if (exists(folder)) {  // an earlier save of this attempt and step failed
      const std::string reason = remove_folder(folder);
      if (!reason.empty()) throw data::DataError(reason + "; move it away");
    }
    make_folder(folder);
    make_empty_file(folder + "/" + std::string(marker_name));
  });
}

ShardEntry CheckpointWriter::write(int64_t step, int rank, const std::vector<Source>& sources,
                                   const BetweenBlocks& between_blocks) const {
  return saving(step, checkpoints_,
                [&] { return write_shard(temporary(step), rank, sources, between_blocks); });
}

void CheckpointWriter::commit(Manifest manifest, const std::vector<ShardEntry>& entries) const {
  saving(manifest.step, checkpoints_, [&] {
    manifest.attempt = attempt_;
    manifest.tensors = merge(entries);
    manifest.shards.clear();
    for (const ShardEntry& entry : entries) manifest.shards.push_back(entry.shard);
    check_shards_are_seen(temporary(manifest.step), manifest.shards);
    data::write_file(temporary(manifest.step) + "/" + std::string(manifest_name), to_text(manifest));
    put_in_place(manifest.step);
  });
}

void CheckpointWriter::put_in_place(int64_t step) const {
  const std::string from = temporary(step);
  const std::string home = checkpoints_ + "/" + name_of(Kind::complete, step, 0);
  const std::string outgoing = checkpoints_ + "/" + name_of(Kind::outgoing, step, attempt_);
  const AttemptFence fence(checkpoints_, attempt_);  // held until the folder has its name
  if (!exists(home)) {
    data::rename_durably(from, home);
    return;
  }
  // Exchanging both names at once leaves no moment without either; not every file system can.
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, home.c_str(), RENAME_EXCHANGE) == 0) {
    data::sync_folder(checkpoints_);
    discard(from);
    return;
  }
  if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) {
    throw data::system_error(from, "exchange it with " + home, errno);
  }
  if (exists(outgoing)) discard(outgoing);
  data::rename_durably(home, outgoing);  // claim_attempt() puts it back if we die here
  try {
    data::rename_durably(from, home);
  } catch (const data::DataError&) {
    if (!exists(home)) data::rename_durably(outgoing, home);
    throw;
  }
  discard(outgoing);
}

void CheckpointWriter::abandon(int64_t step) const noexcept {
  discard(temporary(step));
}

std::string CheckpointWriter::delete_checkpoint(const Listed& old) const {
  const std::string outgoing = checkpoints_ + "/" + name_of(Kind::outgoing, old.step, attempt_);
  try {
    {
      const AttemptFence fence(checkpoints_, attempt_);
      data::rename_durably(old.path, outgoing);  // from here on nobody takes it for a checkpoint
    }
    const std::string reason = remove_folder(outgoing);
    if (reason.empty()) return fmt::format("deleted {}", old.path);
    data::rename_durably(outgoing, old.path);
    return fmt::format("kept {}: {}", old.path, reason);
  } catch (const std::runtime_error& error) {                                 // DataError, or FencedError
    if (!exists(old.path)) return fmt::format("gone already: {}", old.path);  // the run, or another prune
    return fmt::format("could not delete {}: {}", old.path, error.what());
  }
}

std::vector<std::string> CheckpointWriter::prune(int64_t step, int keep_last,
                                                 int64_t keep_every_steps) const {
  std::vector<std::string> notes;
  for (const Listed& old : surplus(checkpoints_, step, keep_last, keep_every_steps))
    notes.push_back(delete_checkpoint(old));
  return notes;
}

std::vector<Listed> surplus(const std::string& checkpoints, int64_t step, int keep_last,
                            int64_t keep_every_steps) {
  std::vector<Listed> found;
  const std::vector<Listed> listed = list(checkpoints, Depth::quick);
  int kept = 0;
  for (auto at = listed.rbegin(); at != listed.rend(); ++at) {
    if (at->step > step || !at->problem.empty()) continue;
    if (kept++ < keep_last || (keep_every_steps > 0 && at->step % keep_every_steps == 0)) continue;
    found.push_back(*at);
  }
  return found;
}

}  // namespace penstock::checkpoint
