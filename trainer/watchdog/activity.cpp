#include "trainer/watchdog/activity.h"

#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

namespace penstock::watchdog {
namespace {

using runtime::Flight;
using runtime::Lane;
using schedule::InstructionKind;

int world_rank(const std::vector<int>& pipeline, int peer) {
  return peer >= 0 && peer < static_cast<int>(pipeline.size()) ? pipeline[static_cast<size_t>(peer)] : -1;
}

Activity of(const Flight& flight, const std::vector<int>& pipeline, double now) {
  Activity activity;
  const schedule::Instruction& at = flight.instruction;
  activity.op = std::string(1, schedule::letter(at.action.op));
  activity.stage = at.action.stage;
  activity.micro_batch = at.action.micro_batch;
  activity.seconds = now - flight.start;
  switch (at.kind) {
    case InstructionKind::compute:
      activity.kind = Activity::Kind::computes;
      break;
    case InstructionKind::send:
      activity.kind = Activity::Kind::sends;
      activity.peer = world_rank(pipeline, at.peer);
      break;
    case InstructionKind::receive:
      activity.kind = Activity::Kind::receives;
      activity.peer = world_rank(pipeline, at.peer);
      break;
    case InstructionKind::reduce_gradients:
      activity.kind = Activity::Kind::reduces;
      break;
    case InstructionKind::sum_tied:
      activity.kind = Activity::Kind::sums_tied;
      activity.peer = world_rank(pipeline, at.peer);
      break;
    case InstructionKind::agree:
    case InstructionKind::optimizer_step:
      activity.kind = Activity::Kind::updates;
      break;
    case InstructionKind::gather_parameters:
      activity.kind = Activity::Kind::gathers;
      break;
  }
  return activity;
}

}  // namespace

Activity activity_of(const runtime::FlightRecord::View& view, const std::vector<int>& pipeline, double now) {
  if (!view.working) return {};
  Activity activity;
  activity.seconds = now - view.begun;
  if (!view.live) {
    activity.kind = Activity::Kind::unseen;
    return activity;
  }
  bool left = false;
  for (const Lane lane : {Lane::compute, Lane::receive, Lane::send, Lane::reduction}) {
    const std::optional<Flight>& head = view.heads[static_cast<size_t>(lane)];
    if (head && head->start > 0) return of(*head, pipeline, now);
    left |= head.has_value();
  }
  activity.kind = left ? Activity::Kind::waits : Activity::Kind::none;
  return activity;
}

std::string seconds_text(double seconds) {
  if (seconds < 0.095) return fmt::format("{:.0f} ms", 1e3 * seconds);
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 120) return fmt::format("{} s", whole);
  if (whole < 7200) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

std::string Activity::text() const {
  const std::string time = seconds_text(seconds);
  const std::string peer_text = peer < 0 ? "another rank" : fmt::format("rank {}", peer);
  switch (kind) {
    case Kind::none:
      return "is between two actions";
    case Kind::computes:
      return fmt::format("is in {} of micro-batch {} of stage {} for {}", op, micro_batch, stage, time);
    case Kind::receives:
      return fmt::format("waits for {} of micro-batch {} from {} for {}", op, micro_batch, peer_text, time);
    case Kind::sends:
      return fmt::format("waits for {} to take {} of micro-batch {} for {}", peer_text, op, micro_batch,
                         time);
    case Kind::reduces:
      return fmt::format("reduces the gradients of stage {} with its replicas for {}", stage, time);
    case Kind::sums_tied:
      return fmt::format("adds the tied weight's gradients with {} for {}", peer_text, time);
    case Kind::updates:
      return fmt::format("is in the optimizer's step, for which all ranks agree, for {}", time);
    case Kind::gathers:
      return fmt::format("gathers the parameters of stage {} from its replicas for {}", stage, time);
    case Kind::waits:
      return fmt::format("waits for work that has not begun for {}", time);
    case Kind::unseen:
      return fmt::format("has its GPU at work for {}", time);
  }
  return "";
}

std::string flight_lines(const std::vector<Flight>& flights, double now) {
  std::string text;
  for (const Flight& flight : flights) {
    text += fmt::format("{:>12.6f} {:>12.6f}  {:<9} {}\n", flight.start - now, flight.end - now,
                        runtime::name_of(flight.lane), schedule::to_string(flight.instruction));
  }
  return text;
}

}  // namespace penstock::watchdog
