#include "trainer/rollback.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "trainer/elapsed.h"
#include "trainer/model_state.h"
#include "trainer/resume.h"

namespace penstock {

void restore(const std::optional<checkpoint::Checkpoint>& from, const RankContext& context,
             NumericsGuard& guard) {
  runtime::PipelineEngine& engine = *context.engine;
  if (from) {
    load_model(*from, engine.rank(), engine.stream());
    guard.restore(from->manifest().state);
  } else {
    engine.rank().initialise(engine.stream());
    guard.restore({});
  }
}

Rollback::Rollback(const RankContext& context, const RunPaths& paths, NumericsGuard& guard,
                   std::string origin, std::function<void()> settle)
    : context_(context),
      checkpoints_(paths.checkpoints().string()),
      guard_(guard),
      origin_(std::move(origin)),
      settle_(std::move(settle)) {}

int64_t Rollback::carry_out(const StepSummary& result, Decision& decision) {
  const auto start = std::chrono::steady_clock::now();
  RunReports& reports = context_.reports;
  const watchdog::Progress::Doing at(context_.progress, watchdog::Phase::rollback);
  const accounting::HostTimes::Doing doing(context_.host, accounting::Part::checkpoint);
  settle_();
  const ResumePoint point = newest_point(checkpoints_, origin_, context_.world);
  for (const std::string& note : point.notes) reports.warning(note);
  in_a_row_ = point.step == target_ ? in_a_row_ + 1 : 1;
  target_ = point.step;
  if (in_a_row_ > context_.job.numerics.max_in_a_row) {
    decision.stop = true;
    decision.code = ExitCode::numerics;
    decision.reason = fmt::format(
        "step {}: the run was taken back to step {} {} times in a row and does not get to another checkpoint "
        "(numerics.max_in_a_row = {}); look at the events before, lower the learning rate, or save more "
        "often",
        result.step, point.step, in_a_row_ - 1, context_.job.numerics.max_in_a_row);
    return result.step;
  }
  const auto global = static_cast<uint64_t>(context_.job.batch.global);
  const uint64_t end = static_cast<uint64_t>(result.step) * global;
  // What was skipped since the checkpoint stays skipped.
  data::SkippedSamples skipped = context_.corpus.skipped();
  const data::SkippedRange range = skipped.skip(end - global, end);
  restore(point.checkpoint, context_, guard_);
  context_.corpus.skip(std::move(skipped));
  const double seconds = seconds_since(start);
  reports.note(fmt::format("step {}: taken back to step {} ({}), and on without samples {} to {} ({:.2f} s)",
                           result.step, point.step,
                           point.checkpoint ? point.checkpoint->path() : "the initial weights", range.begin,
                           range.end - 1, seconds));
  reports.event("rollback", result.step,
                {{"to", point.step},
                 {"skipped_samples", {range.begin, range.end}},
                 {"in_a_row", in_a_row_},
                 {"seconds", seconds}});
  reports.scalar("numerics/rollbacks_in_a_row", static_cast<double>(in_a_row_), result.step);
  reports.rolled_back(point.step);
  return point.step;
}

}  // namespace penstock
