#include "trainer/advice/advice.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "parallel/planner/cut.h"
#include "parallel/schedule/catalogue.h"
#include "parallel/schedule/schedule.h"

namespace penstock::advice {
namespace {

using planner::Candidate;
using planner::CutBy;
using planner::PlanRequest;

constexpr double kLeastGain = 0.01;
// Each change is a search of its own; all of them together take less than a second.
constexpr planner::SearchBudget kSearch{2e6, 2e3};

std::string partition_text(const Candidate& candidate) {
  return fmt::format("parallel.partition = [{}]", fmt::join(candidate.layout.units, ", "));
}

std::string schedule_text(const Candidate& candidate) {
  std::string text = fmt::format("parallel.schedule = \"{}\"", candidate.schedule);
  if (candidate.chunks > 1) text += fmt::format(", chunks = {}", candidate.chunks);
  if (candidate.slack > 0) text += fmt::format(", warmup_slack = {}", candidate.slack);
  return text;
}

/// Asks the planner what becomes of the run if something is changed.
class Questions {
 public:
  Questions(const PlanRequest& running, const Measured& measured) : running_(running), measured_(measured) {
    running_.budget = kSearch;
    now_ = planner::make_plan(running_).chosen;
  }

  double now() const { return now_.prediction.step; }

  std::vector<Change> ask() const {
    std::vector<Change> found;
    const auto consider = [&](const PlanRequest& changed, bool changes_training,
                              const std::function<std::string(const Candidate&)>& keys) {
      if (std::optional<Change> change = answer(changed, changes_training, keys))
        found.push_back(std::move(*change));
    };
    PlanRequest cut = running_;
    cut.cut = CutBy::measured;
    cut.listed.clear();
    consider(cut, false, partition_text);

    PlanRequest less = cut;
    if (recomputes()) {
      less.recompute.fixed.clear();
      less.recompute.allowed.fill(true);
      consider(less, false, [](const Candidate& each) {
        std::vector<std::string> modes;
        for (const planner::Recompute mode : each.layout.recompute)
          modes.push_back(fmt::format("\"{}\"", planner::to_string(mode)));
        return fmt::format("recompute.stages = [{}], {}", fmt::join(modes, ", "), partition_text(each));
      });
    }

    PlanRequest open = cut;
    open.schedule = "auto";
    open.chunks = 0;
    open.slack = -1;
    if (!open.recompute.fixed.empty()) {  // by stage, of which there may be others now
      open.recompute.allowed.fill(false);
      for (const planner::Recompute mode : open.recompute.fixed)
        open.recompute.allowed[static_cast<size_t>(mode)] = true;
      open.recompute.fixed.clear();
    }
    consider(open, false,
             [](const Candidate& each) { return schedule_text(each) + "; " + partition_text(each); });

    PlanRequest more = running_;
    for (planner::Workload& workload : more.workloads) workload.micro_batches *= 2;
    consider(more, true, [this](const Candidate&) {
      const planner::Workload& workload = running_.workloads.front();
      return fmt::format("batch.global = {}",
                         2 * workload.micro_batches * workload.model.micro_batch * running_.machine.replicas);
    });
    std::stable_sort(found.begin(), found.end(),
                     [](const Change& a, const Change& b) { return a.gain > b.gain; });
    return found;
  }

 private:
  bool recomputes() const {
    return std::any_of(now_.layout.recompute.begin(), now_.layout.recompute.end(),
                       [](planner::Recompute mode) { return mode != planner::Recompute::none; });
  }

  std::optional<Change> answer(const PlanRequest& changed, bool changes_training,
                               const std::function<std::string(const Candidate&)>& keys) const {
    Candidate best;
    try {
      best = planner::make_plan(changed).chosen;
    } catch (const planner::PlanError&) {
      return std::nullopt;  // cannot be had
    } catch (const planner::PartitionError&) {
      return std::nullopt;
    } catch (const schedule::ScheduleError&) {
      return std::nullopt;
    }
    if (!best.prediction.fits) return std::nullopt;
    Change change;
    change.gain = 1 - now_.prediction.tokens_per_second / best.prediction.tokens_per_second;
    if (change.gain < kLeastGain) return std::nullopt;
    change.keys = keys(best);
    const double unknown = now_.prediction.step > 0 ? measured_.step / now_.prediction.step : 1;
    change.step = unknown * best.prediction.step;
    change.bubble = best.prediction.measures.bubble_ratio;
    change.peak_memory = best.prediction.peak_memory;
    change.peak_memory_now = now_.prediction.peak_memory;
    // Sums of two copies, and gradients of the version before, are others.
    change.changes_training = changes_training ||
                              schedule::copies_of(best.schedule) != schedule::copies_of(now_.schedule) ||
                              schedule::versions_of(best.schedule) != schedule::versions_of(now_.schedule);
    return change;
  }

  PlanRequest running_;
  Measured measured_;
  Candidate now_;
};

std::vector<Hint> hints_of(const Measured& measured) {
  std::vector<Hint> hints;
  if (measured.host >= 0.05) {
    const std::string cause =
        measured.threads_per_processor > 1
            ? fmt::format(
                  "{:.3g} compute threads share a processor and take each other's turns: fewer ranks or "
                  "threads on a machine, or more processors",
                  measured.threads_per_processor)
            : "actions are so short that starting them counts: larger micro-batches, fewer stages";
    hints.push_back(
        {fmt::format("hosts are late for {:.1f} % of the time; {}", 100 * measured.host, cause), {}});
  }
  if (measured.pause >= 0.03) {
    hints.push_back(
        {fmt::format("evaluations and saves take {:.1f} % of the time: half as often gains {:.1f} %",
                     100 * measured.pause, 50 * measured.pause),
         measured.pause / 2});
  }
  if (measured.replicas > 1 && measured.reduction >= 0.05) {
    hints.push_back(
        {fmt::format("sums over replicas and agreements take {:.1f} % of the time: parallel.reduce_every "
                     "sums while the step still runs, more micro-batches a step sum less often",
                     100 * measured.reduction),
         {}});
  }
  return hints;
}

}  // namespace

Level level_of(double idle) {
  if (idle < leave_alone_below) return Level::leave_alone;
  return idle > change_above ? Level::change_first : Level::may_help;
}

Advice advise(const Measured& measured, const std::optional<PlanRequest>& running, const std::string& why) {
  Advice made;
  made.measured = measured;
  made.level = level_of(measured.idle);
  if (made.level == Level::leave_alone) return made;
  made.hints = hints_of(measured);
  if (!running) {
    made.unknown = why;
    return made;
  }
  if (running->machine.ranks < 2) return made;  // no pipeline: nothing to plan
  try {
    const Questions questions(*running, measured);
    made.simulated_step = questions.now();
    made.changes = questions.ask();
  } catch (const planner::PlanError& error) {
    made.unknown = error.what();
  } catch (const planner::PartitionError& error) {
    made.unknown = error.what();
  } catch (const schedule::ScheduleError& error) {
    made.unknown = error.what();
  }
  return made;
}

}  // namespace penstock::advice
