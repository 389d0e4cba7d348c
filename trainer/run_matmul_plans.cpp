#include "trainer/run_matmul_plans.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "data/file_writer.h"
#include "model/call_sites.h"
#include "trainer/report/matmul_roof.h"

namespace penstock {

std::string adopt_matmul_plans(Backend& backend, const checkpoint::Manifest& from) {
  const auto stored = from.state.find(matmul_plans_state);
  if (!backend.matmul_plans || stored == from.state.end()) return {};
  return backend.matmul_plans->adopt(stored->second.dump());
}

std::string settle_matmul_plans(Backend& backend, const runtime::PipelinePlan& plan,
                                const checkpoint::Manifest* from, transport::World& world,
                                const RunPaths& paths, RunReports& reports) {
  if (!backend.matmul_plans) return {};
  MatmulPlans& plans = *backend.matmul_plans;
  size_t adopted = 0;
  const auto plan_everything = [&] {
    if (from != nullptr && from->state.contains(matmul_plans_state)) {
      const std::string refusal = adopt_matmul_plans(backend, *from);
      if (!refusal.empty()) reports.warning(refusal + "; losses may differ in their last bits from here on");
      if (refusal.empty()) adopted = plans.count();
    }
    backend.math.gemm->plan_linear(matmul_roof_shape(plan.ranks.front().compute));
    for (const model::RankConfig& rank : plan.ranks) model::make_call_sites(backend.math, rank);
  };
  plans.agree(world.rank() == 0, plan_everything,
              [&](const std::string& text) { return world.broadcast(text, 0); });
  std::string text = plans.text();
  if (world.rank() != 0) return text;
  data::write_file(paths.matmul_plans().string(), nlohmann::ordered_json::parse(text).dump(2) + "\n");
  const std::string source =
      adopted == 0 ? std::string() : fmt::format("{} of them the checkpoint's, ", adopted);
  reports.note(fmt::format("{} matrix products planned for {}, {}in {}", plans.count(), plans.origin(),
                           source, paths.matmul_plans().string()));
  return text;
}

}  // namespace penstock
