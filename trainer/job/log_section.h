#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

namespace penstock {

enum class ConsoleMode { automatic, plain, quiet };
inline constexpr std::array<std::pair<std::string_view, ConsoleMode>, 3> kConsoleModeNames{
    {{"auto", ConsoleMode::automatic}, {"plain", ConsoleMode::plain}, {"quiet", ConsoleMode::quiet}}};

/// [log]: what a run tells while it runs. metrics.jsonl and one log file a rank are always written.
struct LogSection {
  int64_t every_steps = 1;
  ConsoleMode console = ConsoleMode::automatic;
  bool tensorboard = true;
  bool prometheus = false;

  bool operator==(const LogSection&) const = default;

  template <class Visitor>
  void describe(Visitor& v) {
    v.key("every_steps", every_steps).at_least(1).help("a console line every so many steps");
    v.key("console", console)
        .one_of(kConsoleModeNames)
        .help("rank 0's; auto: one line redrawn on a terminal, plain lines elsewhere");
    v.key("tensorboard", tensorboard).help("write `tensorboard/`");
    v.key("prometheus", prometheus).help("write `metrics.prom`");
  }
};

}  // namespace penstock
