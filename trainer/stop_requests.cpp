#include "trainer/stop_requests.h"

#include <fmt/format.h>

namespace penstock {

StopRequests::StopRequests(StopSwitch* stop, RunReports& reports, std::function<double()> save_seconds,
                           std::function<void(const std::string& request, int64_t step)> act)
    : stop_(stop), reports_(reports), save_seconds_(std::move(save_seconds)), act_(std::move(act)) {}

void StopRequests::wish(const StepSummary& result, Decision& wishes) {
  if (stop_ == nullptr) return;
  // One more step and a save, each with as much again in hand.
  const Request request = stop_->poll(std::chrono::duration<double>(2 * (result.seconds + save_seconds_())));
  if (!request.act.empty() && request.stop) {
    reports_.warning(
        fmt::format("control/act: \"{}\" came with a request to stop and is not carried out; ask "
                    "again once the run goes on",
                    request.act));
  } else if (!request.act.empty()) {
    act_(request.act, result.step);
  }
  if (request.reason.empty()) return;
  const bool stops = request.stop && !wishes.finished;
  reports_.note(fmt::format(
      "step {}: {} asked to {}", result.step, request.reason,
      stops ? "stop: saving" : (request.save ? "save" : (request.evaluate ? "evaluate" : "stop"))));
  reports_.event("request", result.step,
                 {{"reason", request.reason},
                  {"stop", request.stop},
                  {"save", request.save},
                  {"evaluate", request.evaluate}});
  wishes.evaluate |= request.evaluate;
  wishes.save |= request.save;
  if (!stops) return;
  wishes.stop = true;
  wishes.save = true;
  wishes.code = ExitCode::stopped;
  wishes.reason = request.reason;
}

}  // namespace penstock
