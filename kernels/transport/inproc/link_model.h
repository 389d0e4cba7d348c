#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "kernels/transport/communicator.h"

namespace penstock::transport {

/// What a message pays on its way: it occupies the link for bytes / bandwidth, and is there `latency` later.
struct Link {
  double latency_seconds = 0;
  double bytes_per_second = std::numeric_limits<double>::infinity();

  bool operator==(const Link&) const = default;
};

/// The link of every ordered pair of world ranks. On a virtual clock times move by it, exactly. On a real
/// clock the sender's stream waits while the link is occupied, and the receiver's until the message is there.
class LinkModel {
 public:
  /// All links free.
  LinkModel() = default;
  LinkModel(int ranks, const Link& all);

  /// UsageError for ranks outside the model.
  void set(int source, int destination, const Link& link);
  bool free() const { return links_.empty(); }
  int ranks() const { return ranks_; }
  Link between(int source, int destination) const { return free() ? Link{} : link(source, destination); }
  /// Duration of a collective of `bytes` (all_reduce, broadcast: the tensor's; reduce_scatter, all_gather:
  /// all blocks') once all `members` are there, by their slowest ring edge. With n ranks, a the edge's
  /// latency and b its seconds for the bytes: all_reduce 2(n−1)(a + b/n), reduce_scatter and all_gather
  /// (n−1)(a + b/n), broadcast (n−1)a + b (a pipelined chain), barrier 2(n−1)a. Nothing for one rank.
  double collective_seconds(CollectiveKind kind, const std::vector<int>& members, size_t bytes) const;

 private:
  const Link& link(int source, int destination) const {
    return links_[static_cast<size_t>(source) * static_cast<size_t>(ranks_) +
                  static_cast<size_t>(destination)];
  }

  int ranks_ = 0;
  std::vector<Link> links_;
};

}  // namespace penstock::transport
