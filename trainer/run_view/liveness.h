#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "trainer/run_view/run_record.h"

namespace penstock::run_view {

/// What can be asked about the machine this runs on; tests answer themselves.
struct Surroundings {
  std::string host;
  std::chrono::system_clock::time_point now;
  /// Whether some process of this machine has the file locked. Never takes the lock itself: a run that starts
  /// in that moment would be refused.
  bool (*locked)(const std::filesystem::path& file);

  static Surroundings here();
};

enum class Life {
  not_begun,  ///< nobody ever started it
  alive,
  silent,  ///< on another machine, and not heard of for long
  ended,   ///< finished, stopped or failed, and said so
  killed,  ///< nobody runs it, and it did not say that it ended
};

struct Liveness {
  Life life = Life::not_begun;
  std::optional<Holder> holder;         ///< who runs it, or ran it last
  std::optional<double> heard_seconds;  ///< since status.json was written

  /// For people: "running", "silent for 3:05", "killed", …; `status` names the way it ended.
  std::string text(const std::optional<StatusRecord>& status) const;
};

/// Whether somebody runs what is in the folder. On this machine the lock on the folder tells; of a run on
/// another one only how old its status is: silent after a minute, or twenty times `step_seconds`.
Liveness liveness_of(const std::filesystem::path& lock, const std::optional<StatusRecord>& status,
                     double step_seconds, const Surroundings& around);

}  // namespace penstock::run_view
