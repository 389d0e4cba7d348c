#include "trainer/budget/by_hand.h"

#include <charconv>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "parallel/planner/cut.h"
#include "parallel/schedule/catalogue.h"
#include "parallel/schedule/schedule.h"
#include "trainer/budget/controller.h"

namespace penstock::budget {

using planner::PlanRequest;

namespace {

constexpr BudgetAction by_hand[] = {
    BudgetAction::repartition, BudgetAction::recompute,   BudgetAction::warmup_slack, BudgetAction::schedule,
    BudgetAction::chunks,      BudgetAction::micro_batch, BudgetAction::conservative};

std::string choices() {
  std::vector<std::string> names;
  for (const BudgetAction action : by_hand) names.emplace_back(name_of(action));
  return fmt::format("{} or revert", fmt::join(names, ", "));
}

int number(const std::string& word, int least) {
  int value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size() || value < least) {
    throw std::invalid_argument(fmt::format("\"{}\": a whole number from {} was expected", word, least));
  }
  return value;
}

void expect_at_most(const HandRequest& request, size_t count) {
  if (request.values.size() <= count) return;
  throw std::invalid_argument(fmt::format("{}: \"{}\" is too much: it takes {} values at most",
                                          name_of(*request.action), request.values[count], count));
}

size_t stages_of(const Situation& situation) {
  return situation.running.layout.units.size();
}

void set_units(const HandRequest& request, const Situation& situation, PlanRequest& asked) {
  if (request.values.size() != stages_of(situation)) {
    throw std::invalid_argument(fmt::format("repartition: {} numbers of units for {} stages",
                                            request.values.size(), stages_of(situation)));
  }
  asked.cut = planner::CutBy::listed;
  asked.listed.clear();
  for (const std::string& value : request.values) asked.listed.push_back(number(value, 1));
}

void set_modes(const HandRequest& request, const Situation& situation, PlanRequest& asked) {
  const size_t stages = stages_of(situation);
  if (request.values.size() != 1 && request.values.size() != stages) {
    throw std::invalid_argument(fmt::format("recompute: {} modes for {} stages: one for all, or one each",
                                            request.values.size(), stages));
  }
  asked.recompute.fixed.clear();
  for (size_t stage = 0; stage < stages; ++stage)
    asked.recompute.fixed.push_back(recompute_named(request.values[request.values.size() == 1 ? 0 : stage]));
}

void set_size(const HandRequest& request, const Situation& situation, PlanRequest& asked) {
  const int size = number(request.values[0], 1);
  std::vector<int64_t> known;
  for (const planner::Workload& workload : situation.workloads) {
    known.push_back(workload.model.micro_batch);
    if (workload.model.micro_batch == size) asked.workloads = {workload};
  }
  if (asked.workloads.size() == 1 && asked.workloads[0].model.micro_batch == size) return;
  throw std::invalid_argument(
      fmt::format("micro_batch: {} sequences; {} may be taken", size, fmt::join(known, ", ")));
}

// Its index among the workloads.
size_t workload_of(const Situation& situation, const PlanRequest& asked, const planner::Candidate& chosen) {
  const int64_t size = asked.workloads[asked.workloads.size() == 1 ? 0 : chosen.workload].model.micro_batch;
  for (size_t i = 0; i < situation.workloads.size(); ++i) {
    if (situation.workloads[i].model.micro_batch == size) return i;
  }
  return situation.running.workload;
}

}  // namespace

HandRequest read_request(const std::string& text) {
  std::istringstream words(text);
  std::string name;
  if (!(words >> name)) throw std::invalid_argument(fmt::format("it is empty: {} was expected", choices()));
  HandRequest made;
  for (std::string value; words >> value;) made.values.push_back(value);
  if (name == "revert") {
    if (!made.values.empty())
      throw std::invalid_argument(fmt::format("revert: \"{}\" is too much", made.values.front()));
    return made;
  }
  for (const BudgetAction action : by_hand) {
    if (name == name_of(action)) made.action = action;
  }
  if (!made.action) throw std::invalid_argument(fmt::format("\"{}\": {} was expected", name, choices()));
  return made;
}

PlanRequest request_by_hand(const HandRequest& request, const Situation& situation,
                            const BubbleBudgetSection& section) {
  const std::unique_ptr<Action> action = make_action(*request.action, section);
  PlanRequest asked = action->request(situation).value_or(as_it_is(situation));
  if (request.values.empty()) return asked;
  switch (*request.action) {
    case BudgetAction::repartition:
      set_units(request, situation, asked);
      break;
    case BudgetAction::recompute:
      set_modes(request, situation, asked);
      break;
    case BudgetAction::warmup_slack:
      expect_at_most(request, 1);
      asked.slack = number(request.values[0], 0);
      break;
    case BudgetAction::schedule:
      expect_at_most(request, 2);
      if (schedule::copies_of(request.values[0]) > 1) {
        throw std::invalid_argument(fmt::format(
            "schedule {}: it runs two copies of the weights, which round otherwise", request.values[0]));
      }
      if (schedule::versions_of(request.values[0]) > 1) {
        throw std::invalid_argument(
            fmt::format("schedule {}: it is asynchronous, and computes something else", request.values[0]));
      }
      asked.schedule = request.values[0];
      if (request.values.size() == 2) asked.chunks = number(request.values[1], 1);
      break;
    case BudgetAction::chunks:
      expect_at_most(request, 1);
      asked.chunks = number(request.values[0], 1);
      break;
    case BudgetAction::micro_batch:
      expect_at_most(request, 1);
      set_size(request, situation, asked);
      break;
    case BudgetAction::conservative:
      expect_at_most(request, 0);
      break;
  }
  return asked;
}

Arrangement Controller::wanted(const std::string& text) {
  const HandRequest request = read_request(text);
  if (!request.action) {
    if (!previous_) throw std::invalid_argument("nothing was changed yet, to which one could go back");
    return *previous_;
  }
  const std::vector<planner::Workload> workloads = workloads_now();
  const planner::Machine machine = machine_now(workloads);
  const Situation situation{running(), options_.first,     machine,
                            workloads, options_.recompute, options_.search};
  if (request.action == BudgetAction::micro_batch && workloads.size() == 1)
    throw std::invalid_argument(
        "micro_batch: bubble_budget.actions does not allow it, or no other size divides a "
        "replica's sequences");
  const planner::PlanRequest asked = request_by_hand(request, situation, options_.budget);
  const planner::Candidate chosen = planner::make_plan(asked).chosen;
  const planner::Prediction& prediction = chosen.prediction;
  for (size_t rank = 0; !prediction.fits && rank < prediction.memory.size(); ++rank) {
    const int64_t needed = prediction.memory[rank].total();
    const int64_t limit = machine.limit_of(static_cast<int>(rank));
    if (needed <= limit) continue;
    throw std::invalid_argument(fmt::format(
        "rank {} would need {} bytes beside the arrangement that runs, and has {}", rank, needed, limit));
  }
  Arrangement arrangement = arrangement_of(chosen);
  arrangement.workload = workload_of(situation, asked, chosen);
  return arrangement;
}

Verdict Controller::by_hand(const std::string& request, int64_t step) {
  Verdict verdict;
  std::optional<Arrangement> arrangement;
  std::string why;
  try {
    if (trial_ && !read_request(request).action) {
      end_trial(false, {}, "it was ended by hand", step, verdict);
      return verdict;
    }
    arrangement = wanted(request);
    if (*arrangement == running()) why = fmt::format("it runs so already: {}", to_string(running()));
  } catch (const std::invalid_argument& error) {
    why = error.what();
  } catch (const planner::PlanError& error) {
    why = error.what();
  } catch (const planner::PartitionError& error) {
    why = error.what();
  } catch (const schedule::ScheduleError& error) {
    why = error.what();
  }
  if (!why.empty()) {
    verdict.events.push_back({"budget_refused",
                              step,
                              {{"request", request}, {"arrangement", to_string(running())}, {"why", why}},
                              fmt::format("budget: \"{}\" cannot be done: {}\n", request, why)});
    return verdict;
  }
  verdict.events.push_back({"budget_by_hand",
                            step,
                            {{"request", request},
                             {"before", to_string(running())},
                             {"arrangement", to_string(*arrangement)},
                             {"ended_trial", trial_.has_value()}},
                            fmt::format("budget: \"{}\" by hand: {}\n", request, to_string(*arrangement))});
  before_ = running();
  previous_ = trial_ ? trial_->old->arrangement() : running();
  trial_.reset();
  run(simulated(*arrangement));
  state_ = State::cool_down;
  cooling_ = options_.budget.cooldown_windows;
  fruitless_levels_.clear();
  verdict.command = Verdict::Command::apply;
  verdict.arrangement = std::move(arrangement);
  return verdict;
}

}  // namespace penstock::budget
