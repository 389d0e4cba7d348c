#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/transport/communicator.h"
#include "kernels/transport/device_access.h"

namespace penstock::transport {

/// All ranks of a run, as one of them sees it: makes communicators, and lets the hosts agree outside steps.
///
/// Everything but rank(), size() and abort() is collective: every rank calls it, in the same order, from one
/// thread, and blocks until all have. DeviceError if the world was stopped. The small host-side operations
/// send every rank's bytes to every rank, so they are for a few numbers or names, never for tensors.
class World {
 public:
  virtual ~World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  /// "inproc", "mpi", "tcp", "nccl".
  virtual std::string_view transport() const = 0;
  /// The same with what a log should know.
  virtual std::string description() const { return std::string(transport()); }
  /// The world through which the hosts talk: its communicators carry host memory on the processor's streams,
  /// and are created like these. This one itself, but for nccl; on GPUs of one process there is none such.
  virtual World& hosts() { return *this; }

  /// This rank's device, where it is not the processor; before communicators are created, and alive as long
  /// as they are. Not collective, but every rank does it, or none.
  void attach(DeviceAccess access) { access_ = std::move(access); }

  /// A communicator of `members` (world ranks, in its order, each once), empty for a rank that is no member.
  /// All communicators are created at start, in one order. UsageError if the ranks disagree, naming the first
  /// that does. Communicators are destroyed before their world.
  std::unique_ptr<Communicator> create(const std::string& name, const std::vector<int>& members);
  /// A communicator of all ranks.
  std::unique_ptr<Communicator> create(const std::string& name);

  /// values[i] = reduction over the ranks of values[i], combined in rank order, the same bits on all.
  /// UsageError if the ranks give different numbers of values.
  void all_reduce(std::span<double> values, Reduction reduction);
  void all_reduce(std::span<int64_t> values, Reduction reduction);
  /// values[i] = bitwise or over the ranks (flags: a signal, a failed check).
  void all_or(std::span<uint64_t> values);
  /// Rank `root`'s bytes; what the others pass is ignored.
  std::string broadcast(std::string_view bytes, int root);
  /// Every rank's bytes in rank order, on every rank.
  std::vector<std::string> all_gather(std::string_view bytes) { return share(bytes); }
  /// Every rank's bytes in rank order on rank 0, empty elsewhere.
  std::vector<std::string> gather(std::string_view bytes);
  void barrier();

  /// From now on operations that wait for a peer throw a DeviceError that names `reason`: on all ranks
  /// (inproc), or on this one (mpi, where the launcher ends the others once this process leaves with an
  /// error). Callable from any thread, at any time, any number of times.
  virtual void abort(const std::string& reason) = 0;
  /// Whether abort() was called, or an operation failed.
  virtual bool stopped() const = 0;
  /// Why; empty until then.
  virtual std::string stop_reason() const = 0;

 protected:
  World(int rank, int size) : rank_(rank), size_(size) {}
  /// Of attach(); no device: the processor.
  const DeviceAccess& access() const { return access_; }

 private:
  /// Every rank's bytes in rank order, on every rank.
  virtual std::vector<std::string> share(std::string_view bytes) = 0;
  /// `members` are checked and agreed on. Collective over the world; empty where we are no member.
  virtual std::unique_ptr<Communicator> make_communicator(const std::string& name,
                                                          const std::vector<int>& members, int rank) = 0;
  void check_members(const std::string& name, const std::vector<int>& members) const;
  template <class T>
  std::vector<std::vector<T>> share_values(std::span<const T> values);
  template <class T>
  void reduce_values(std::span<T> values, Reduction reduction);

  const int rank_;
  const int size_;
  DeviceAccess access_;
};

/// Declared after the streams of a rank: when an exception unwinds, it stops the world first, so that the
/// streams' destructors do not wait for peers.
class AbortOnUnwind {
 public:
  explicit AbortOnUnwind(World& world) : world_(world), exceptions_(std::uncaught_exceptions()) {}
  ~AbortOnUnwind();
  AbortOnUnwind(const AbortOnUnwind&) = delete;
  AbortOnUnwind& operator=(const AbortOnUnwind&) = delete;

 private:
  World& world_;
  const int exceptions_;
};

}  // namespace penstock::transport
