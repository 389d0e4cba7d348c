#include "parallel/planner/check_request.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace penstock::planner {

namespace {

void require(bool holds, const std::string& otherwise) {
  if (!holds) throw PlanError(otherwise);
}

void require_size(size_t size, size_t full, const char* what) {
  require(size == 1 || size == full, fmt::format("{} {}: one for all, or {}", size, what, full));
}

void check_machine(const Machine& machine) {
  require(machine.ranks >= 1, fmt::format("{} pipeline ranks: at least 1", machine.ranks));
  require(machine.replicas >= 1, fmt::format("{} replicas: at least 1", machine.replicas));
  const auto P = static_cast<size_t>(machine.ranks);
  require_size(machine.links.edges.size(), P * P, "edges between ranks");
  require_size(machine.pace.size(), P, "paces of ranks");
  if (!machine.memory_limit.empty()) require_size(machine.memory_limit.size(), P, "memory limits of ranks");
  for (const double pace : machine.pace) {
    require(std::isfinite(pace) && pace > 0,
            fmt::format("a rank's pace is {}: it must be a number above 0", pace));
  }
  for (const Edge& edge : machine.links.edges) {
    require(
        std::isfinite(edge.latency) && edge.latency >= 0 && edge.bandwidth > 0,
        fmt::format("an edge of {} s latency and {} bytes a second: latency is 0 or more, bandwidth above 0",
                    edge.latency, edge.bandwidth));
  }
  for (const int64_t limit : machine.memory_limit)
    require(limit > 0, fmt::format("a memory limit of {} bytes: it must be above 0", limit));
}

// Bytes are added up in 64 bits: all units on one rank, with every micro-batch in flight, must not leave
// them.
void check_bytes(const Workload& workload) {
  constexpr double most = 4e18;
  const auto of = [](int64_t bytes) { return static_cast<double>(bytes); };
  const ModelCosts& model = workload.model;
  double all = of(model.rank_bytes) + of(model.tied_exchange_bytes) + of(model.tied_shared_bytes);
  const double flights = 2.0 * workload.micro_batches;
  all += flights * of(model.boundary_bytes);
  for (const UnitCosts& unit : model.units) {
    double slot = of(unit.side_band_bytes);
    for (const ModeCosts& mode : unit.modes) {
      slot += of(mode.forward_bytes) + of(mode.kept_bytes) + of(mode.weight_bytes) + of(mode.transient_bytes);
    }
    all += of(unit.resident_bytes) + of(unit.gradient_bytes) + of(unit.workspace_bytes) + flights * slot;
  }
  require(all < most,
          fmt::format("units that take {:.3g} bytes together with {} micro-batches in flight: these "
                      "are no bytes of a machine; less than {:.3g} is expected",
                      all, workload.micro_batches, most));
}

}  // namespace

void check_request(const PlanRequest& request) {
  check_machine(request.machine);
  require(!request.workloads.empty(), "no micro-batch size to plan with: at least one workload");
  const size_t units = request.workloads[0].model.units.size();
  for (const Workload& workload : request.workloads) {
    require(workload.micro_batches >= 1,
            fmt::format("{} micro-batches a step: at least 1", workload.micro_batches));
    require(workload.model.units.size() == units && units > 0,
            fmt::format("workloads of {} and of {} units: all are of one model", units,
                        workload.model.units.size()));
    check_bytes(workload);
  }
  const std::vector<int>& listed = request.listed;
  if (request.cut == CutBy::listed) {
    require(
        !listed.empty() && std::accumulate(listed.begin(), listed.end(), 0) == static_cast<int>(units) &&
            *std::min_element(listed.begin(), listed.end()) >= 1,
        fmt::format("stages of [{}] units: at least one each, {} in all", fmt::join(listed, ", "), units));
    require(listed.size() % static_cast<size_t>(request.machine.ranks) == 0,
            fmt::format("{} listed stages on {} ranks: a multiple of the ranks", listed.size(),
                        request.machine.ranks));
    const int chunks = static_cast<int>(listed.size()) / request.machine.ranks;
    require(request.chunks == chunks,
            fmt::format("{} listed stages are {} chunks a rank; the request says {}", listed.size(), chunks,
                        request.chunks));
  }
  const std::vector<Recompute>& fixed = request.recompute.fixed;
  if (fixed.empty()) {
    bool any = false;
    for (size_t m = 0; m < recompute_modes; ++m)
      any = any || (request.recompute.allowed[m] && request.workloads[0].model.available[m]);
    require(any, "no recompute mode that is allowed has been measured");
  } else {
    require(
        request.chunks > 0 &&
            fixed.size() == static_cast<size_t>(request.machine.ranks) * static_cast<size_t>(request.chunks),
        fmt::format("recompute modes of {} stages: one for each of ranks x chunks, which must be fixed too",
                    fixed.size()));
  }
}

}  // namespace penstock::planner
