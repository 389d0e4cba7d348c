#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "trainer/accounting/parts.h"

namespace penstock::run_view {

/// What a rank's time is shown as: the parts of accounting, put together where people ask the same question
/// of them. Work first, then idle. Colours are blue where a rank works and warm where it waits, which the
/// common forms of colour blindness keep apart.
enum class Cause : uint8_t {
  forward,
  input,
  weight,
  recompute,
  optimizer,
  fill,
  wait,
  transfer,
  drain,
  reduction,
  host,
  pause,
  unexplained,
};
inline constexpr size_t cause_count = 13;
inline constexpr size_t first_idle_cause = static_cast<size_t>(Cause::fill);

/// How a cause is called and drawn, in the terminal and on the page alike.
struct CauseLook {
  const char* name;       ///< "wait"
  const char* meaning;    ///< for a legend's tooltip
  char key;               ///< in bars without colours
  uint8_t terminal;       ///< of 256 colours
  const char* light;      ///< "#rrggbb" on white
  const char* dark;       ///< on black
  bool dark_text = true;  ///< letters on it are dark
};
inline constexpr std::array<CauseLook, cause_count> cause_looks{{
    {"F", "forward", 'F', 26, "#1f5fa8", "#3d7fd0", false},
    {"I", "backward: gradient of the input", 'I', 74, "#4a9fd0", "#56a9da"},
    {"W", "backward: gradient of the weights", 'W', 152, "#a3cfe6", "#a3cfe6"},
    {"R", "recomputation in the backward pass", 'R', 98, "#7a6bb8", "#9385d0", false},
    {"optimizer", "squares, norm and update", 'o', 250, "#8f99a6", "#8f99a6"},
    {"fill", "before the rank's first input was there", '<', 221, "#f2c53d", "#f2c53d"},
    {"wait", "for an action of another rank", '.', 208, "#e8842c", "#ee8f3a"},
    {"transfer", "a message on its way, or a buffer that one still holds", '~', 160, "#c0392b", "#d9503f",
     false},
    {"drain", "after the rank's last action", '>', 229, "#f7e3a1", "#e9d48b"},
    {"reduction", "sums over replicas, agreement of all ranks", '+', 175, "#c77d9e", "#d08bab"},
    {"host", "the host was late: data, enqueueing, starting", 'h', 137, "#96703f", "#b08a58", false},
    {"pause", "evaluation and checkpoint", 'p', 242, "#5f6670", "#7a828e", false},
    {"unexplained", "what contradicts itself", '?', 201, "#d02fc0", "#e05ad2"},
}};
constexpr const CauseLook& look_of(Cause cause) {
  return cause_looks[static_cast<size_t>(cause)];
}

constexpr Cause cause_of(accounting::Part part) {
  using accounting::Part;
  switch (part) {
    case Part::forward:
      return Cause::forward;
    case Part::backward_input:
      return Cause::input;
    case Part::backward_weight:
      return Cause::weight;
    case Part::recompute:
      return Cause::recompute;
    case Part::optimizer:
      return Cause::optimizer;
    case Part::fill:
      return Cause::fill;
    case Part::wait_forward:
    case Part::wait_backward:
      return Cause::wait;
    case Part::transfer:
    case Part::buffer:
      return Cause::transfer;
    case Part::drain:
      return Cause::drain;
    case Part::reduction:
      return Cause::reduction;
    case Part::data:
    case Part::host:
    case Part::launch:
      return Cause::host;
    case Part::evaluation:
    case Part::checkpoint:
      return Cause::pause;
    case Part::unexplained:
      break;
  }
  return Cause::unexplained;
}

/// Seconds, or shares, by cause.
class CauseSums {
 public:
  double& operator[](Cause cause) { return sums_[static_cast<size_t>(cause)]; }
  double operator[](Cause cause) const { return sums_[static_cast<size_t>(cause)]; }
  void add(const accounting::PartSeconds& parts, double factor = 1) {
    for (size_t at = 0; at < accounting::part_count; ++at) {
      const auto part = static_cast<accounting::Part>(at);
      (*this)[cause_of(part)] += factor * parts[part];
    }
  }
  void add(const CauseSums& other, double factor = 1) {
    for (size_t at = 0; at < cause_count; ++at) sums_[at] += factor * other.sums_[at];
  }
  double all() const { return sum(0); }
  double idle() const { return sum(first_idle_cause); }

 private:
  double sum(size_t first) const {
    double total = 0;
    for (size_t at = first; at < cause_count; ++at) total += sums_[at];
    return total;
  }
  std::array<double, cause_count> sums_{};
};

}  // namespace penstock::run_view
