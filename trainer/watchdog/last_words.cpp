#include "trainer/watchdog/last_words.h"

#include <cstdio>
#include <exception>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "data/data_error.h"
#include "data/file_writer.h"
#include "kernels/device/clock.h"
#include "trainer/job/exit_code.h"
#include "trainer/report/event_writer.h"
#include "trainer/report/rank_log.h"
#include "trainer/report/timestamp.h"
#include "trainer/watchdog/activity.h"
#include "trainer/watchdog/thread_stacks.h"

namespace penstock::watchdog {
namespace {

void complain(const std::string& what) {
  std::fprintf(stderr, "penstock: %s\n", what.c_str());
}

std::string flight_text(const Progress& progress) {
  const Progress::Engine engine = progress.engine();
  if (!engine.flights) return "there was no engine yet\n";
  const std::vector<runtime::Flight> flights = engine.flights->lately();
  return fmt::format("the last {} actions: start and end in seconds before this, lane, action\n{}",
                     flights.size(), flight_lines(flights, make_real_clock()->now()));
}

}  // namespace

std::string write_flight_file(const LastWords& words, const Progress& progress) {
  const std::string stacks = thread_stacks();
  if (words.attempt != 0) {
    const std::filesystem::path folder = words.run / "flight";
    const std::filesystem::path path =
        folder / fmt::format("attempt-{}-rank-{:05}.txt", words.attempt, words.rank);
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    std::ofstream file(path, std::ios::app);
    file << report::timestamp() << "\n"
         << words.text << "\n"
         << stacks << "\n"
         << flight_text(progress) << "\n";
    file.close();
    if (file) return path.string();
    complain(fmt::format("{}: cannot be written", path.string()));
  }
  std::fprintf(stderr, "penstock: rank %d: calls of all threads\n%s", words.rank, stacks.c_str());
  return {};
}

void write_log(const LastWords& words) {
  if (words.attempt == 0) return;
  try {
    report::RankLog((words.run / "logs").string(), words.rank).error(words.text);
  } catch (const std::exception& error) {
    complain(error.what());
  }
}

void write_outcome(const LastWords& words, int64_t step, const Outcome& outcome) {
  if (words.attempt == 0) return;
  const auto code = static_cast<ExitCode>(outcome.code);
  const bool again = code == ExitCode::internal_error || code >= ExitCode::watchdog;
  try {
    const std::string path = (words.run / "status.json").string();
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    nlohmann::ordered_json status = nlohmann::ordered_json::parse(text.str(), nullptr, false);
    if (status.is_object() && status.value("attempt", uint64_t{0}) > words.attempt) return;  // no longer ours
    // A rank that slept through the others' end, and now finds them gone, has nothing to add.
    const std::string before = status.is_object() ? status.value("state", "") : "";
    if (status.is_object() && status.value("attempt", uint64_t{0}) == words.attempt &&
        (before == "failed" || before == "stopped" || before == "finished")) {
      return;
    }
    if (!status.is_object()) status = {{"schema", 1}, {"step", step}};
    nlohmann::json details{{"exit_code", outcome.code}, {"reason", outcome.reason}};
    if (!outcome.ranks.empty()) details["ranks"] = outcome.ranks;
    report::EventWriter((words.run / "events.jsonl").string(), static_cast<int64_t>(words.attempt), complain)
        .write(outcome.event, step, details);
    status["state"] = code == ExitCode::stopped ? "stopped" : "failed";
    status["time"] = report::timestamp();
    status["attempt"] = words.attempt;
    status["needs_resume"] = again;
    status["exit_code"] = outcome.code;
    status["reason"] = outcome.reason;
    status.erase("seconds_left");
    data::write_file(path, status.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  } catch (const std::exception& error) {
    complain(error.what());
  }
}

}  // namespace penstock::watchdog
