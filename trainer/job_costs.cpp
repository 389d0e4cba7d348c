#include "trainer/job_costs.h"

#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "parallel/runtime/model_footprint.h"
#include "trainer/job_profile.h"
#include "trainer/report/matmul_roof.h"
#include "trainer/report/memory_roof.h"
#include "trainer/run_folder.h"

namespace penstock {
namespace {

planner::ModelCosts footprint(const Job& job, Backend& backend) {
  const runtime::PipelineRequest request = pipeline_request(job);
  return runtime::model_footprint(request.common, backend.math, reduction_of(request));
}

// A profile's times with bytes that are counted: a profile may come from another number of replicas.
void take_bytes(const planner::ModelCosts& counted, planner::ModelCosts& costs) {
  for (size_t at = 0; at < costs.units.size(); ++at) {
    planner::UnitCosts& unit = costs.units[at];
    const planner::UnitCosts& from = counted.units[at];
    unit.resident_bytes = from.resident_bytes;
    unit.gradient_bytes = from.gradient_bytes;
    unit.workspace_bytes = from.workspace_bytes;
    unit.side_band_bytes = from.side_band_bytes;
    for (size_t mode = 0; mode < unit.modes.size(); ++mode) {
      unit.modes[mode].forward_bytes = from.modes[mode].forward_bytes;
      unit.modes[mode].kept_bytes = from.modes[mode].kept_bytes;
      unit.modes[mode].weight_bytes = from.modes[mode].weight_bytes;
      unit.modes[mode].transient_bytes = from.modes[mode].transient_bytes;
    }
  }
  costs.boundary_bytes = counted.boundary_bytes;
  costs.rank_bytes = counted.rank_bytes;
  costs.tied_exchange_bytes = counted.tied_exchange_bytes;
  costs.tied_shared_bytes = counted.tied_shared_bytes;
}

std::string crowding(const planner::Profile& profile) {
  if (!profile.oversubscribed()) return "";
  return fmt::format(" (with {:.3g} compute threads a processor: of an oversubscribed machine)",
                     profile.threads_per_processor);
}

std::string profile_path(const Job& job) {
  return RunPaths(std::filesystem::path(job.run.folder) / job.run.name).profile().string();
}

// What rank 0 found: the profile's text, or why there is none.
struct Found {
  std::string text;
  std::string why;
};

Found find_profile(const Job& job, const Device& device) {
  const std::string path = profile_path(job);
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    return {"", "there is no profile yet (`penstock profile` measures one)"};
  std::string text = planner::profile_text(path);
  const planner::Profile profile = planner::read_profile(text, path);
  const std::string differs = misfit(profile, job, device);
  if (!differs.empty()) return {"", fmt::format("{} is of another job:{}", path, differs)};
  return {std::move(text), ""};
}

planner::Edge edge_of(const ClusterLink& link) {
  return {1e-6 * link.latency_us, 1e9 * link.gb_per_s};
}

planner::LinkCosts cluster_links(const Job& job, const Cluster& cluster) {
  const runtime::Topology topology(static_cast<int>(job.parallel.pipeline),
                                   static_cast<int>(job.parallel.data), job.parallel.order);
  const auto between = [&](int from, int to) {
    return from / cluster.cluster.ranks_per_node == to / cluster.cluster.ranks_per_node
               ? edge_of(cluster.inside_node)
               : edge_of(cluster.between_nodes);
  };
  planner::LinkCosts links;
  links.edges.clear();
  const std::vector<int> pipeline = topology.pipeline_of(0);
  for (const int from : pipeline) {
    for (const int to : pipeline) links.edges.push_back(between(from, to));
  }
  const std::vector<int> replicas = topology.replicas_of(0);
  if (replicas.size() > 1) {
    const planner::Edge hop = between(replicas.front(), replicas.back());
    const auto D = static_cast<double>(replicas.size());
    links.reduction = {2 * (D - 1) * hop.latency, hop.bandwidth * D / (2 * (D - 1))};
  }
  return links;
}

}  // namespace

JobCosts costs_from_profile(const Job& job, Backend& backend, const planner::Profile& profile,
                            const std::string& place) {
  JobCosts costs;
  costs.model = planner::model_costs(profile, job.batch.micro);
  take_bytes(footprint(job, backend), costs.model);
  costs.links = planner::link_costs(profile, static_cast<int>(job.parallel.pipeline));
  costs.pace = planner::rank_paces(profile, static_cast<int>(job.parallel.pipeline));
  costs.measured = true;
  costs.threads_per_processor = profile.threads_per_processor;
  costs.note = fmt::format("unit costs as measured: {}", place) + crowding(profile);
  return costs;
}

JobCosts costs_from_profile(const Job& job, Backend& backend, const std::string& path) {
  const planner::Profile profile = planner::read_profile_file(path);
  const std::string differs = misfit(profile, job);
  if (!differs.empty()) throw planner::ProfileError(fmt::format("{} is not of this job:{}", path, differs));
  JobCosts costs = costs_from_profile(job, backend, profile, path);
  costs.note = fmt::format("unit costs as measured on {}: {}", profile.device, path) + crowding(profile);
  return costs;
}

JobCosts costs_on_cluster(const Job& job, Backend& backend, const Cluster& cluster) {
  const model::RankConfig common = pipeline_request(job).common;
  const ClusterDevice& device = cluster.device;
  const auto devices = static_cast<double>(device.devices_per_rank);
  const double tflops = common.compute == DType::fp32 ? device.fp32_tflops : device.bf16_tflops;
  const runtime::DeviceRates rates{1e12 * tflops * device.product_efficiency * devices,
                                   1e9 * device.memory_gb_per_s * device.memory_efficiency * devices};
  JobCosts costs;
  costs.model = formula_costs(common, rates, footprint(job, backend));
  for (planner::UnitCosts& unit : costs.model.units)
    unit.resident_bytes = (unit.resident_bytes + device.state_shards - 1) / device.state_shards;
  costs.links = cluster_links(job, cluster);
  costs.note = fmt::format("unit costs {}, the rates of {}", costs.model.source, cluster.cluster.name);
  return costs;
}

runtime::DeviceRates measured_rates(Backend& backend, DType compute) {
  return {measure_matmul_roof(*backend.device, backend.math, compute),
          measure_memory_roof(*backend.device, backend.math)};
}

JobCosts costs_by_formula(const Job& job, Backend& backend, const std::optional<runtime::DeviceRates>& rates,
                          const std::string& why) {
  const model::RankConfig common = pipeline_request(job).common;
  JobCosts costs;
  costs.model =
      formula_costs(common, rates.value_or(runtime::nominal_cpu_rates(common.compute, job.parallel.threads)),
                    footprint(job, backend));
  if (!rates) costs.model.source += " (nominal)";
  costs.note = fmt::format("unit costs {}; {}", costs.model.source, why);
  return costs;
}

JobCosts job_costs(const Job& job, Backend& backend, transport::World* world) {
  Found found;
  if (world == nullptr || world->rank() == 0) found = find_profile(job, *backend.device);
  if (world != nullptr && world->size() > 1) {
    found.text = world->broadcast(found.text, 0);
    found.why = world->broadcast(found.why, 0);
  }
  if (found.text.empty()) return costs_by_formula(job, backend, std::nullopt, found.why);
  const std::string path = profile_path(job);
  return costs_from_profile(job, backend, planner::read_profile(found.text, path), path);
}

}  // namespace penstock
