#include "trainer/watchdog/heartbeat.h"

#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace penstock::watchdog {
namespace {

using Json = nlohmann::json;

Json json_of(const Heartbeat& beat) {
  const Activity& at = beat.activity;
  return {{"rank", beat.rank},
          {"phase", name_of(beat.phase)},
          {"part", beat.part},
          {"step", beat.step},
          {"seconds", beat.seconds},
          {"stage", beat.stage},
          {"at", {static_cast<int>(at.kind), at.op, at.stage, at.micro_batch, at.peer, at.seconds}}};
}

Heartbeat beat_from(const Json& json) {
  Heartbeat beat;
  beat.rank = json.at("rank");
  beat.phase = phase_named(json.at("phase").get<std::string>()).value_or(Phase::start_up);
  beat.part = json.at("part");
  beat.step = json.at("step");
  beat.seconds = json.at("seconds");
  beat.stage = json.at("stage");
  const Json& at = json.at("at");
  beat.activity.kind = static_cast<Activity::Kind>(at.at(0).get<int>());
  beat.activity.op = at.at(1);
  beat.activity.stage = at.at(2);
  beat.activity.micro_batch = at.at(3);
  beat.activity.peer = at.at(4);
  beat.activity.seconds = at.at(5);
  return beat;
}

}  // namespace

std::string Heartbeat::text() const {
  const std::string time = seconds_text(seconds);
  const bool acts = activity.kind != Activity::Kind::none;
  switch (phase) {
    case Phase::start_up:
      return fmt::format("is starting ({}) for {}", part, time);
    case Phase::step:
      return acts ? activity.text() : fmt::format("is between two actions, in the step for {}", time);
    case Phase::evaluation:
      return fmt::format("is in the evaluation after step {} for {}{}", step, time,
                         acts ? ": it " + activity.text() : "");
    case Phase::check:
      return fmt::format("checks the numbers of step {} for {}{}", step, time,
                         acts ? ": it " + activity.text() : "");
    case Phase::rollback:
      return fmt::format("goes back to a checkpoint from step {} for {}", step, time);
    case Phase::save:
      return fmt::format("saves step {} for {}", step, time);
    case Phase::load:
      return fmt::format("reads a checkpoint for {}", time);
    case Phase::rearrangement:
      return fmt::format("is rearranged after step {} for {}", step, time);
    case Phase::ending:
      return fmt::format("is ending for {}", time);
  }
  return "";
}

std::string line_of(const Message& message) {
  Json json{{"kind", static_cast<int>(message.kind)}};
  if (message.kind == Message::Kind::beat) {
    json["beat"] = json_of(message.beat);
    json["heard"] = message.heard;
  } else {
    json["rank"] = message.rank;
    json["code"] = message.code;
    json["text"] = message.text;
    json["place"] = message.place;
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool read_message(const std::string& line, Message& message) {
  try {
    const Json json = Json::parse(line);
    const int kind = json.at("kind");
    if (kind < 0 || kind > static_cast<int>(Message::Kind::bye)) return false;
    message = {};
    message.kind = static_cast<Message::Kind>(kind);
    if (message.kind == Message::Kind::beat) {
      message.beat = beat_from(json.at("beat"));
      message.heard = json.at("heard");
      return true;
    }
    message.rank = json.at("rank");
    message.code = json.at("code");
    message.text = json.at("text");
    message.place = json.at("place");
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

}  // namespace penstock::watchdog
