#include "parallel/runtime/profiler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "kernels/device/error.h"
#include "model/unit_id.h"
#include "parallel/runtime/link_profiler.h"
#include "parallel/runtime/model_footprint.h"

namespace penstock::runtime {

using planner::MeasuredMode;
using planner::MeasuredSize;
using planner::MeasuredUnit;
using planner::Profile;
using planner::Recompute;
using planner::Timing;

namespace {

// The first unit of each kind, in the model's order.
std::vector<int> representatives(const ModelSection& model) {
  return {0, 1, 2, model::unit_count(model) - 1};
}

const char* kind_of(int unit) {
  constexpr std::array<const char*, 3> kinds{"embedding", "attention", "mlp"};
  return unit < 3 ? kinds[static_cast<size_t>(unit)] : "head";
}

// Embedding and head keep nothing that a recomputation could rebuild.
bool recomputes(int unit) {
  return unit == 1 || unit == 2;
}

model::RankConfig at_size(const ProfileRequest& request, int64_t micro_batch) {
  model::RankConfig config = request.common;
  const int64_t sequences = config.micro_batch * config.micro_batches;
  if (micro_batch < 1 || sequences % micro_batch != 0) {
    throw UsageError(fmt::format("micro-batches of {} sequences do not divide a replica's {} of a step",
                                 micro_batch, sequences));
  }
  config.micro_batch = micro_batch;
  config.micro_batches = sequences / micro_batch;
  return config;
}

void take_times(const UnitTimings& timings, MeasuredMode& mode) {
  mode.forward = timings.forward;
  mode.recompute = timings.recompute;
  mode.backward_input = timings.backward_input;
  mode.backward_weight = timings.backward_weight;
}

// Every time that all ranks measured.
std::vector<Timing*> timings_of(Profile& profile) {
  std::vector<Timing*> all;
  for (MeasuredUnit& unit : profile.units) {
    all.push_back(&unit.optimizer_step);
    for (MeasuredSize& size : unit.sizes) {
      for (MeasuredMode& mode : size.modes) {
        for (Timing* timing : {&mode.forward, &mode.recompute, &mode.backward_input, &mode.backward_weight})
          all.push_back(timing);
      }
    }
  }
  return all;
}

class Profiler {
 public:
  Profiler(Device& device, math::Math& math, transport::World& world, const ProfileRequest& request,
           const ProfileProgress& progress)
      : device_(device),
        math_(math),
        world_(world),
        request_(request),
        progress_(progress),
        communicators_(make_communicators(world, request.topology, 1, {})),
        profile_(profile_skeleton(math, request)) {
    const auto modes = static_cast<int>(request.modes.size());
    total_ = (2 + 2 * modes) * static_cast<int>(request.micro_batches.size());
    if (request.topology.pipeline() > 1) ++total_;
    if (request.topology.replicas() > 1) total_ += 2;
    if (world.size() > 1) ++total_;
    profile_.device = device.description();
    profile_.threads = device.options().threads;
  }

  Profile run() {
    measure_units();
    if (world_.size() > 1) {
      agree_on_medians();
      measure_links();
      if (request_.topology.replicas() > 1) measure_reductions();
      measure_traffic();
    }
    return std::move(profile_);
  }

 private:
  void done() { progress_(++done_, total_); }

  void measure_units() {
    const std::vector<int> units = representatives(request_.common.model);
    for (size_t size = 0; size < request_.micro_batches.size(); ++size) {
      const model::RankConfig config = at_size(request_, request_.micro_batches[size]);
      for (size_t kind = 0; kind < units.size(); ++kind) {
        MeasuredUnit& unit = profile_.units[kind];
        std::vector<MeasuredMode>& modes = unit.sizes[size].modes;
        for (size_t mode = 0; mode < modes.size(); ++mode) {
          UnitTimings timings;
          if (mode == 0 || recomputes(units[kind])) {
            world_.barrier();
            timings = measure_unit(device_, math_, config, units[kind], recompute_mode(modes[mode].mode),
                                   request_.effort);
            if (size == 0 && mode == 0) unit.optimizer_step = timings.optimizer_step;
            take_times(timings, modes[mode]);
            if (modes[mode].mode == Recompute::none || !recomputes(units[kind]))
              modes[mode].recompute = Timing{0, 0, modes[mode].forward.samples};  // nothing was enqueued
            done();
          } else {
            const MeasuredMode same = modes[0];
            modes[mode].forward = same.forward;
            modes[mode].recompute = same.recompute;
            modes[mode].backward_input = same.backward_input;
            modes[mode].backward_weight = same.backward_weight;
          }
        }
      }
    }
  }

  // On rank 0.
  void agree_on_medians() {
    const std::vector<Timing*> timings = timings_of(profile_);
    std::vector<double> ours;
    for (const Timing* timing : timings) {
      ours.push_back(timing->median);
      ours.push_back(timing->spread);
    }
    const auto* bytes = reinterpret_cast<const char*>(ours.data());
    const std::vector<std::string> all = world_.gather(std::string_view(bytes, ours.size() * sizeof(double)));
    std::vector<double> seconds(all.size());
    for (size_t at = 0; !all.empty() && at < timings.size(); ++at) {
      std::array<std::vector<double>, 2> figures;
      for (const std::string& theirs : all) {
        for (size_t i = 0; i < figures.size(); ++i) {
          double value = 0;
          std::memcpy(&value, theirs.data() + (2 * at + i) * sizeof value, sizeof value);
          figures[i].push_back(value);
        }
      }
      for (size_t rank = 0; rank < all.size(); ++rank) seconds[rank] += figures[0][rank];
      timings[at]->median = timing_of(figures[0]).median;
      timings[at]->spread = timing_of(figures[1]).median;
    }
    if (!all.empty()) profile_.pace = paces_of(seconds, request_.topology);
  }

  int64_t boundary_bytes() const {
    for (const planner::MeasuredShape& shape : profile_.shapes) {
      if (shape.micro_batch == request_.common.micro_batch) return shape.boundary_bytes;
    }
    return profile_.shapes.front().boundary_bytes;
  }

  void measure_links() {
    if (request_.topology.pipeline() == 1) return;
    profile_.links = runtime::measure_links(device_, world_, *communicators_.pipeline, boundary_bytes(),
                                            request_.effort.repetitions);
    done();
  }

  // A line through the kinds with the fewest and the most gradients.
  void measure_reductions() {
    const std::vector<int> units = representatives(request_.common.model);
    std::array<size_t, 2> kinds{0, 0};
    for (size_t kind = 1; kind < units.size(); ++kind) {
      const int64_t bytes = profile_.units[kind].gradient_bytes;
      if (bytes < profile_.units[kinds[0]].gradient_bytes) kinds[0] = kind;
      if (bytes > profile_.units[kinds[1]].gradient_bytes) kinds[1] = kind;
    }
    std::array<double, 2> seconds{};
    std::array<double, 2> bytes{};
    for (size_t i = 0; i < kinds.size(); ++i) {
      seconds[i] = measure_reduction(device_, math_, request_.common, units[kinds[i]],
                                     *communicators_.replicas, request_.reduction, request_.effort)
                       .median;
      bytes[i] = static_cast<double>(profile_.units[kinds[i]].gradient_bytes);
      done();
    }
    world_.all_reduce(seconds, transport::Reduction::maximum);
    planner::MeasuredLink reduction;
    const double slope = (seconds[1] - seconds[0]) / std::max(bytes[1] - bytes[0], 1.0);
    // A line that says nothing goes through the origin.
    const bool rises = slope > 0 && slope * bytes[1] <= seconds[1];
    reduction.bandwidth = rises ? 1 / slope : bytes[1] / seconds[1];
    reduction.latency = rises ? seconds[1] - slope * bytes[1] : 0;
    profile_.reduction = reduction;
  }

  void measure_traffic() {
    const bool pipeline = request_.topology.pipeline() > 1;
    transport::Communicator& between = pipeline ? *communicators_.pipeline : *communicators_.replicas;
    std::vector<planner::MeasuredLink> links = profile_.links;
    if (!pipeline)
      links = runtime::measure_links(device_, world_, between, boundary_bytes(), request_.effort.repetitions);
    const planner::MeasuredLink& link = links.front();
    const double message =
        link.latency + static_cast<double>(boundary_bytes()) / link.bandwidth.value_or(1e18);
    std::optional<int> peer = between.rank() ^ 1;
    if (*peer >= between.size()) peer.reset();
    const auto slowdown = measure_traffic_slowdown(device_, math_, request_.common, 2, world_, between, peer,
                                                   message, request_.effort);
    std::array<double, 2> sum{slowdown.value_or(0), slowdown ? 1.0 : 0.0};
    world_.all_reduce(sum, transport::Reduction::sum);
    profile_.traffic_slowdown = sum[1] > 0 ? sum[0] / sum[1] : 0;
    done();
  }

  Device& device_;
  math::Math& math_;
  transport::World& world_;
  const ProfileRequest& request_;
  const ProfileProgress& progress_;
  Communicators communicators_;
  Profile profile_;
  int total_ = 0;
  int done_ = 0;
};

}  // namespace

std::vector<double> paces_of(const std::vector<double>& seconds, const Topology& topology) {
  const double middle = timing_of(seconds).median;
  if (!(middle > 0)) return {};
  std::vector<double> paces(static_cast<size_t>(topology.pipeline()));
  for (size_t rank = 0; rank < seconds.size(); ++rank) {
    double& pace = paces[static_cast<size_t>(topology.place(static_cast<int>(rank)).pipeline)];
    pace = std::max(pace, seconds[rank] / middle);
  }
  bool all_alike = true;
  for (double& pace : paces) {
    if (std::abs(pace - 1) < alike) pace = 1;
    all_alike = all_alike && pace == 1;
  }
  return all_alike ? std::vector<double>{} : paces;
}

Profile profile_skeleton(math::Math& math, const ProfileRequest& request) {
  const std::vector<int> units = representatives(request.common.model);
  Profile profile;
  profile.compute = name_of(request.common.compute);
  profile.units.resize(units.size());
  for (const int64_t micro_batch : request.micro_batches) {
    const planner::ModelCosts counted =
        model_footprint(at_size(request, micro_batch), math, request.reduction);
    profile.tied_embeddings = counted.tied_embeddings;
    profile.tied_exchange_bytes = counted.tied_exchange_bytes;
    profile.tied_shared_bytes = counted.tied_shared_bytes;
    profile.shapes.push_back({micro_batch, counted.boundary_bytes, counted.rank_bytes});
    for (size_t kind = 0; kind < units.size(); ++kind) {
      const planner::UnitCosts& from = counted.units[static_cast<size_t>(units[kind])];
      MeasuredUnit& unit = profile.units[kind];
      unit.kind = kind_of(units[kind]);
      unit.parameters = static_cast<int64_t>(from.parameters);
      unit.flops = from.flops / static_cast<double>(micro_batch);
      unit.resident_bytes = from.resident_bytes;
      unit.gradient_bytes = from.gradient_bytes;
      MeasuredSize& size = unit.sizes.emplace_back();
      size.micro_batch = micro_batch;
      size.workspace_bytes = from.workspace_bytes;
      size.side_band_bytes = from.side_band_bytes;
      for (const Recompute mode : request.modes) {
        const planner::ModeCosts& costs = from.in(mode);
        MeasuredMode& made = size.modes.emplace_back();
        made.mode = mode;
        made.forward_bytes = costs.forward_bytes;
        made.kept_bytes = costs.kept_bytes;
        made.weight_bytes = costs.weight_bytes;
        made.transient_bytes = costs.transient_bytes;
      }
    }
  }
  return profile;
}

Profile measure_profile(Device& device, math::Math& math, transport::World& world,
                        const ProfileRequest& request, const ProfileProgress& progress) {
  return Profiler(device, math, world, request, progress).run();
}

}  // namespace penstock::runtime
