#include "trainer/commands/schedule_answer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "parallel/schedule/catalogue.h"
#include "parallel/schedule/validate.h"

namespace penstock::commands {

using schedule::ScheduleError;

RankCosts read_costs(const std::string& text) {
  const auto fail = [&](const std::string& what) {
    throw ScheduleError(
        fmt::format("--costs \"{}\": {}; expected F,I,W or F,I,W,transfer: numbers from 0 to 1e12 in one "
                    "unit, such as 1,1,1,0.1",
                    text, what));
  };
  std::vector<double> numbers;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string item = text.substr(at, comma - at);
    double value = 0;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), value);
    if (item.empty() || error != std::errc() || end != item.data() + item.size()) {
      fail(fmt::format("\"{}\" (number {}) is not a number", item, numbers.size() + 1));
    }
    if (!std::isfinite(value) || value < 0 || value > 1e12) {
      fail(fmt::format("{} (number {}) is out of range", item, numbers.size() + 1));
    }
    numbers.push_back(value);
    at = comma + 1;
  }
  if (numbers.size() != 3 && numbers.size() != 4) fail(fmt::format("{} number(s)", numbers.size()));
  if (numbers[0] + numbers[1] + numbers[2] <= 0) fail("F, I and W are all 0: there is no step to plan");
  return {{numbers[0], numbers[1], numbers[2]}, numbers.size() == 4 ? numbers[3] : 0};
}

ScheduleAnswer answer(const std::string& name, const schedule::ScheduleOptions& options,
                      const RankCosts& costs) {
  constexpr int window = 4;  // asynchronous: until fill is over, two steps, and one before drain begins
  schedule::ScheduleOptions listed = options;
  const bool file = name.rfind("file:", 0) == 0;
  if (!file && schedule::find_schedule_kind(name).versions > 1) listed.steps = window;
  ScheduleAnswer made;
  made.schedule = schedule::generate(name, listed);
  require_valid(made.schedule);
  const schedule::Costs each =
      schedule::uniform_costs(made.schedule.ranks, made.schedule.chunks, costs.stage, costs.transfer);
  schedule::LoweringOptions lowering;
  lowering.reduce_gradients = false;  // what follows the actions is not part of these costs
  lowering.receive_lead = sufficient_receive_lead(made.schedule, each, lowering);
  made.program = lower(made.schedule, each, lowering);
  require_valid(made.program);
  made.timeline = simulate(made.program, each);
  made.measures = made.schedule.steps > 1 ? measure_steady_state(made.program, made.timeline)
                                          : measure(made.program, made.timeline);
  return made;
}

ScheduleAnswer picture(const ScheduleAnswer& made, const schedule::ScheduleOptions& options,
                       const RankCosts& costs) {
  if (made.schedule.steps == 1) return made;
  schedule::ScheduleOptions listed = options;
  listed.steps = 2;
  ScheduleAnswer drawn;
  drawn.schedule = schedule::generate(made.schedule.name, listed);
  const schedule::Costs each =
      schedule::uniform_costs(drawn.schedule.ranks, drawn.schedule.chunks, costs.stage, costs.transfer);
  drawn.program = lower(drawn.schedule, each, made.program.options);
  drawn.timeline = simulate(drawn.program, each);
  return drawn;
}

nlohmann::json to_json(const ScheduleAnswer& made) {
  nlohmann::json ranks = nlohmann::json::array();
  for (size_t r = 0; r < made.measures.ranks.size(); ++r) {
    const schedule::RankMeasures& rank = made.measures.ranks[r];
    ranks.push_back({{"idle", without_rounding(rank.idle)},
                     {"peak_slots", rank.peak_slots},
                     {"busy", rank.busy},
                     {"fill", without_rounding(rank.causes.fill)},
                     {"wait", without_rounding(rank.causes.wait)},
                     {"transfer", without_rounding(rank.causes.transfer)},
                     {"buffer", without_rounding(rank.causes.buffer)},
                     {"drain", without_rounding(rank.causes.drain)},
                     {"buffers", made.program.ranks[r].buffers}});
  }
  return {{"schedule", made.schedule.name},
          {"pipeline", made.schedule.ranks},
          {"micro_batches", made.schedule.micro_batches},
          {"chunks", made.schedule.chunks},
          {"copies", made.schedule.copies},
          {"makespan", made.measures.makespan},
          {"bubble_ratio", without_rounding(made.measures.bubble_ratio)},
          {"bubble_ratio_rank_span", without_rounding(made.measures.bubble_ratio_rank_span)},
          {"receive_lead", made.program.options.receive_lead},
          {"ranks", ranks}};
}

double without_rounding(double value) {
  return std::abs(value) < 1e-9 ? 0 : value;
}

}  // namespace penstock::commands
