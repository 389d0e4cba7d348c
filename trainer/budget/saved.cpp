// What of the controller outlives an interruption.
#include <nlohmann/json.hpp>

#include "trainer/budget/controller.h"

namespace penstock::budget {

using nlohmann::json;

json Controller::saved() const {
  const Arrangement& settled = trial_ ? trial_->old->arrangement() : running();
  if (left_.empty() && !previous_ && settled == options_.first) return nullptr;
  json left = json::array();
  for (const Left& each : left_) {
    left.push_back({{"arrangement", json_of(each.arrangement)},
                    {"times", each.times},
                    {"failed_levels", each.failed_levels},
                    {"failed_steps", each.failed_steps}});
  }
  json made{{"first", json_of(options_.first)}, {"arrangement", json_of(settled)}, {"left", left}};
  if (previous_) made["previous"] = json_of(*previous_);
  return made;
}

std::optional<Arrangement> Controller::settled(const json& saved, const Arrangement& first) {
  if (arrangement_from(saved.at("first")) != first) return std::nullopt;
  return arrangement_from(saved.at("arrangement"));
}

bool Controller::restore(const json& saved) {
  const std::optional<Arrangement> arrangement = settled(saved, options_.first);
  if (!arrangement) return false;
  std::vector<Left> left;
  for (const json& each : saved.at("left")) {
    left.push_back({arrangement_from(each.at("arrangement")), each.at("times").get<int>(),
                    each.at("failed_levels").get<std::vector<double>>(),
                    each.at("failed_steps").get<size_t>()});
  }
  std::optional<Arrangement> previous;
  if (saved.contains("previous")) previous = arrangement_from(saved.at("previous"));
  run(simulated(*arrangement));
  left_ = std::move(left);
  previous_ = std::move(previous);
  return true;
}

}  // namespace penstock::budget
