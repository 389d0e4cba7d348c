#include "trainer/run_view/liveness.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "kernels/device/host_name.h"
#include "trainer/report/progress_bar.h"

namespace penstock::run_view {
namespace {

constexpr double kSilentSeconds = 60;
constexpr double kSilentSteps = 20;

// /proc/locks: "1: FLOCK  ADVISORY  WRITE 27081 fe:00:131075 0 EOF", devices in hexadecimal.
bool listed_as_locked(const std::filesystem::path& file) {
  struct stat about = {};
  if (::stat(file.c_str(), &about) != 0) return false;
  const std::string wanted =
      fmt::format("{:02x}:{:02x}:{}", major(about.st_dev), minor(about.st_dev), about.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (word == "->") break;  // waits for a lock
      if (word == wanted) return true;
    }
  }
  return false;
}

}  // namespace

Surroundings Surroundings::here() {
  return {host_name(), std::chrono::system_clock::now(), &listed_as_locked};
}

Liveness liveness_of(const std::filesystem::path& lock, const std::optional<StatusRecord>& status,
                     double step_seconds, const Surroundings& around) {
  Liveness made;
  std::ostringstream text;
  text << std::ifstream(lock).rdbuf();
  made.holder = parse_holder(text.str());
  if (status && status->time)
    made.heard_seconds = std::max(0.0, std::chrono::duration<double>(around.now - *status->time).count());
  if (!made.holder && !status) return made;
  if (!made.holder || made.holder->host == around.host) {
    if (made.holder && around.locked(lock)) {
      made.life = Life::alive;
    } else {
      made.life = status && status->ended() ? Life::ended : Life::killed;
    }
    return made;
  }
  if (status && status->ended()) {
    made.life = Life::ended;
  } else {
    const double longest = std::max(kSilentSeconds, kSilentSteps * step_seconds);
    made.life = made.heard_seconds && *made.heard_seconds <= longest ? Life::alive : Life::silent;
  }
  return made;
}

std::string Liveness::text(const std::optional<StatusRecord>& status) const {
  switch (life) {
    case Life::not_begun:
      return "not begun";
    case Life::alive:
      return status && !status->ended() ? status->state : "starting";
    case Life::silent:
      return heard_seconds ? "silent for " + report::format_duration(*heard_seconds) : "silent";
    case Life::ended:
      return status->state;
    case Life::killed:
      return "killed";
  }
  return "?";
}

}  // namespace penstock::run_view
