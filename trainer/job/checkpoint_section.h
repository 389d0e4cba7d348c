#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace penstock {

enum class OnSaveError { continue_training, stop };
inline constexpr std::array<std::pair<std::string_view, OnSaveError>, 2> kOnSaveErrorNames{
    {{"continue", OnSaveError::continue_training}, {"stop", OnSaveError::stop}}};

/// [checkpoint]: when to save and what to keep. One is always saved at the end.
struct CheckpointSection {
  int64_t every_steps = 0;
  int64_t keep_last = 2;
  int64_t keep_every_steps = 0;
  bool background = true;
  OnSaveError on_save_error = OnSaveError::continue_training;

  bool operator==(const CheckpointSection&) const = default;

  template <class Visitor>
  void describe(Visitor& v) {
    v.key("every_steps", every_steps).at_least(0).help("save after every so many steps; 0: only at the end");
    v.key("keep_last", keep_last).at_least(2).help("newest checkpoints that are kept");
    v.key("keep_every_steps", keep_every_steps)
        .at_least(0)
        .help("checkpoints whose step is a multiple of this are kept for good; 0: none");
    v.key("background", background)
        .help(
            "steps go on while a checkpoint is written, from a copy in host memory (12 bytes a parameter of "
            "the "
            "rank, planned; none with every_steps = 0); false: they wait, and no copy is held");
    v.key("on_save_error", on_save_error)
        .one_of(kOnSaveErrorNames)
        .help("what a failed save does to the run");
  }
};

}  // namespace penstock
