#pragma once

#include <cstdint>
#include <string>

namespace penstock {

/// [run]: name, length and resumption.
struct RunSection {
  std::string name;
  std::string folder = "runs";
  uint64_t seed = 1;
  int64_t steps = 0;
  std::string resume = "auto";
  int64_t max_wall_time = 0;  ///< seconds; 0: none

  bool operator==(const RunSection&) const = default;

  template <class Visitor>
  void describe(Visitor& v) {
    v.key("name", name).file_name().required().help("names the run folder `<folder>/<name>`");
    v.key("folder", folder).path().help("relative to the working directory");
    v.key("seed", seed).help("all randomness");
    v.key("steps", steps)
        .at_least(1)
        .required()
        .help("optimizer steps in all; a finished run whose steps grew goes on");
    v.key("resume", resume)
        .text_form("auto, must, never, or a path")
        .help("auto: from the newest checkpoint, if any; auto with only damaged checkpoints is an error");
    v.key("max_wall_time", max_wall_time).clock_time().help("save and stop before this much time has passed");
  }
};

}  // namespace penstock
