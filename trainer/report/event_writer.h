#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "trainer/report/append_file.h"

namespace penstock::report {

/// events.jsonl: what happened besides steps (start, evaluation, save, stop, a decision with its evidence),
/// one JSON object a line: `schema, attempt, time, step, event`, and what belongs to the event.
class EventWriter {
 public:
  EventWriter(const std::string& path, int64_t attempt, MessageSink sink);

  /// `details`: an object; its members stand beside the others and must not repeat their names.
  void write(std::string_view event, int64_t step, const nlohmann::json& details);

 private:
  AppendFile file_;
  int64_t attempt_;
};

}  // namespace penstock::report
