#include "trainer/report/event_writer.h"

#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "trainer/report/timestamp.h"

namespace penstock::report {

EventWriter::EventWriter(const std::string& path, int64_t attempt, MessageSink sink)
    : file_(path, AppendFile::Tail::cut_partial_line, std::move(sink)), attempt_(attempt) {}

void EventWriter::write(std::string_view event, int64_t step, const nlohmann::json& details) {
  nlohmann::ordered_json line{
      {"schema", 1}, {"attempt", attempt_}, {"time", timestamp()}, {"step", step}, {"event", event}};
  for (const auto& [name, value] : details.items()) {
    if (line.contains(name)) {
      throw std::logic_error(
          fmt::format("event {}: detail \"{}\" repeats a name of every event", event, name));
    }
    line[name] = value;
  }
  file_.append(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace penstock::report
