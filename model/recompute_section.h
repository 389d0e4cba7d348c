#pragma once

#include <array>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock {

/// What a unit rebuilds in its backward pass instead of keeping it: nothing; norms, activations and the
/// inside of attention; everything but the unit's input. `automatic`: the planner chooses.
enum class RecomputeMode { none, selective, full, automatic };
inline constexpr std::array<std::pair<std::string_view, RecomputeMode>, 4> kRecomputeModeNames{
    {{"none", RecomputeMode::none},
     {"selective", RecomputeMode::selective},
     {"full", RecomputeMode::full},
     {"auto", RecomputeMode::automatic}}};
inline constexpr std::array<std::pair<std::string_view, RecomputeMode>, 3> kStageRecomputeNames{
    {{"none", RecomputeMode::none}, {"selective", RecomputeMode::selective}, {"full", RecomputeMode::full}}};

/// [recompute]: trades time for memory; never changes a bit of the result.
struct RecomputeSection {
  RecomputeMode mode = RecomputeMode::none;
  std::vector<RecomputeMode> stages;

  bool operator==(const RecomputeSection&) const = default;

  template <class Visitor>
  void describe(Visitor& v) {
    v.key("mode", mode)
        .one_of(kRecomputeModeNames)
        .help("what the backward pass rebuilds instead of keeping");
    v.key("stages", stages).one_of(kStageRecomputeNames).help("a mode per stage, instead of mode");
  }
};

}  // namespace penstock
