#include "trainer/report/status_file.h"

#include <cmath>
#include <utility>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "data/data_error.h"
#include "data/file_writer.h"
#include "trainer/report/timestamp.h"

namespace penstock::report {
namespace {

constexpr auto kPeriod = std::chrono::seconds(10);

const char* name_of(Status::State state) {
  switch (state) {
    case Status::State::starting:
      return "starting";
    case Status::State::running:
      return "running";
    case Status::State::finished:
      return "finished";
    case Status::State::stopped:
      return "stopped";
    case Status::State::failed:
      return "failed";
  }
  return "?";
}

// Whether the same command goes on. What is wrong with job, data, numbers or disk is so again.
bool needs_resume(const Status& status) {
  if (status.state == Status::State::finished) return false;
  if (status.state != Status::State::failed || !status.exit_code) return true;
  constexpr int internal_error = 1;
  constexpr int watchdog = 70;
  return *status.exit_code == internal_error || *status.exit_code >= watchdog;
}

std::string json_of(const Status& status) {
  nlohmann::ordered_json out{{"schema", 1},
                             {"state", name_of(status.state)},
                             {"time", timestamp()},
                             {"pid", ::getpid()},
                             {"attempt", status.attempt},
                             {"step", status.step},
                             {"steps", status.total_steps},
                             {"needs_resume", needs_resume(status)}};
  if (status.loss) out["loss"] = std::isfinite(*status.loss) ? nlohmann::ordered_json(*status.loss) : nullptr;
  if (status.seconds_left) out["seconds_left"] = std::round(*status.seconds_left);
  if (status.last_checkpoint) out["last_checkpoint"] = *status.last_checkpoint;
  if (status.exit_code) out["exit_code"] = *status.exit_code;
  if (!status.reason.empty()) out["reason"] = status.reason;
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

StatusFile::StatusFile(std::string path, MessageSink sink, std::function<Clock::time_point()> now)
    : path_(std::move(path)), sink_(std::move(sink)), now_(std::move(now)) {}

void StatusFile::update(const Status& status) {
  const Clock::time_point now = now_();
  const bool changed = status.state != state_ || status.last_checkpoint != last_checkpoint_;
  if (written_ && !changed && now - *written_ < kPeriod) return;
  written_ = now;
  try {
    // While the job runs the next one comes soon, and no step waits for the disk.
    if (status.state == Status::State::running) {
      data::replace_file(path_, json_of(status));
    } else {
      data::write_file(path_, json_of(status));
    }
    state_ = status.state;
    last_checkpoint_ = status.last_checkpoint;
    failing_ = false;
  } catch (const data::DataError& error) {
    if (!failing_ && sink_) sink_(error.what());
    failing_ = true;
  }
}

}  // namespace penstock::report
