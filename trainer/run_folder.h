#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>

namespace penstock {

/// The run folder is held by another job.
class RunFolderError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What lies where in `<run.folder>/<run.name>`, in which everything stands that a run writes.
class RunPaths {
 public:
  explicit RunPaths(std::filesystem::path root) : root_(std::move(root)) {}

  const std::filesystem::path& root() const { return root_; }
  std::filesystem::path job() const { return root_ / "job.toml"; }
  std::filesystem::path plan() const { return root_ / "plan.json"; }
  std::filesystem::path matmul_plans() const { return root_ / "matmul_plans.json"; }
  std::filesystem::path profile() const { return root_ / "profile.json"; }
  std::filesystem::path environment() const { return root_ / "environment.json"; }
  std::filesystem::path metrics() const { return root_ / "metrics.jsonl"; }
  std::filesystem::path events() const { return root_ / "events.jsonl"; }
  std::filesystem::path status() const { return root_ / "status.json"; }
  std::filesystem::path logs() const { return root_ / "logs"; }
  std::filesystem::path prometheus() const { return root_ / "metrics.prom"; }
  std::filesystem::path tensorboard() const { return root_ / "tensorboard"; }
  std::filesystem::path checkpoints() const { return root_ / "checkpoints"; }
  std::filesystem::path trace() const { return root_ / "trace"; }
  std::filesystem::path control() const { return root_ / "control"; }
  /// Locked while a job has the folder; says which.
  std::filesystem::path lock() const { return root_ / "lock"; }

 private:
  std::filesystem::path root_;
};

/// The hold on a run folder: one job at a time may have it. Rank 0 takes it for all ranks.
class RunFolder : public RunPaths {
 public:
  /// Creates what is missing and takes the lock. data::WriteError where it cannot be written; RunFolderError
  /// naming host, process and start time if another job holds it.
  explicit RunFolder(std::filesystem::path root);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

 private:
  int lock_ = -1;
};

}  // namespace penstock
