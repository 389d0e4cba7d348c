#include "kernels/transport/inproc/link_model.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock::transport {

LinkModel::LinkModel(int ranks, const Link& all)
    : ranks_(ranks), links_(static_cast<size_t>(ranks) * static_cast<size_t>(ranks), all) {}

void LinkModel::set(int source, int destination, const Link& link) {
  if (source < 0 || source >= ranks_ || destination < 0 || destination >= ranks_)
    throw UsageError(fmt::format("link from world rank {} to {}: the model has ranks 0 to {}", source,
                                 destination, ranks_ - 1));
  links_[static_cast<size_t>(source) * static_cast<size_t>(ranks_) + static_cast<size_t>(destination)] = link;
}

double LinkModel::collective_seconds(CollectiveKind kind, const std::vector<int>& members,
                                     size_t bytes) const {
  if (free() || members.size() < 2) return 0;
  const auto n = static_cast<double>(members.size());
  double slowest = 0;
  for (size_t i = 0; i < members.size(); ++i) {
    const Link& edge = link(members[i], members[(i + 1) % members.size()]);
    const double latency = edge.latency_seconds;
    const double transfer = static_cast<double>(bytes) / edge.bytes_per_second;
    double seconds = 0;
    switch (kind) {
      case CollectiveKind::all_reduce:
        seconds = 2 * (n - 1) * (latency + transfer / n);
        break;
      case CollectiveKind::reduce_scatter:
      case CollectiveKind::all_gather:
        seconds = (n - 1) * (latency + transfer / n);
        break;
      case CollectiveKind::broadcast:
        seconds = (n - 1) * latency + transfer;
        break;
      case CollectiveKind::barrier:
        seconds = 2 * (n - 1) * latency;
        break;
    }
    slowest = std::max(slowest, seconds);
  }
  return slowest;
}

}  // namespace penstock::transport
