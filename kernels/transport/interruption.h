#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace penstock::transport {

/// The one-way switch that ends a world: once stopped, operations that wait for a peer throw instead.
class Interruption {
 public:
  /// `wake`: called after the stop, to rouse those who sleep. It must not throw.
  explicit Interruption(std::function<void()> wake) : wake_(std::move(wake)) {}

  /// The first reason is kept; later calls change nothing.
  void stop(const std::string& reason);
  bool stopped() const { return stopped_.load(); }
  /// Empty until stopped.
  std::string reason() const;

 private:
  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::string reason_;
  std::atomic<bool> stopped_{false};
};

/// Which communicator, and which of its ranks, an operation or an error belongs to.
struct Identity {
  std::string name;
  std::vector<int> members;  ///< world ranks, in the communicator's order
  int rank = 0;              ///< ours, in the communicator's order

  int size() const { return static_cast<int>(members.size()); }
  int world_rank(int peer) const { return members[static_cast<size_t>(peer)]; }
  /// "communicator "pipeline", rank 1 of 4 (world rank 3)".
  std::string label() const;
  /// "rank 2 (world rank 5)".
  std::string peer_label(int peer) const;
};

/// Travels inside a queued operation: if the operation is dropped, or fails, the world is stopped, because
/// the peers would wait for it in vain.
class Obligation {
 public:
  Obligation(std::shared_ptr<const Identity> who, std::shared_ptr<Interruption> interruption,
             const char* operation)
      : who_(std::move(who)), interruption_(std::move(interruption)), operation_(operation) {}
  Obligation(Obligation&& other) noexcept = default;
  Obligation& operator=(Obligation&&) = delete;
  ~Obligation();

  /// Runs `work` and is met. What `work` throws stops the world and goes on.
  template <class Work>
  void meet(Work work) {
    const std::shared_ptr<Interruption> interruption = std::move(interruption_);
    try {
      work();
    } catch (const std::exception& error) {
      interruption->stop(error.what());
      throw;
    }
  }

 private:
  std::shared_ptr<const Identity> who_;
  std::shared_ptr<Interruption> interruption_;  ///< empty once met or moved from
  const char* operation_;
};

}  // namespace penstock::transport
