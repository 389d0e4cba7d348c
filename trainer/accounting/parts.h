#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace penstock::accounting {

/// What a rank's time in a step is cut into. Each part has its own evidence:
///
///   forward … recompute   spans of compute instructions; recomputation runs inside I and is taken out of it
///   optimizer             squares, norm and update, from the last action of any rank on
///   fill                  before the rank's first action, from the first action of any rank until its input
///   is
///                         there
///   wait_forward/backward until the peer's action that makes the next input had ended (F: activation, I:
///   gradient) transfer              from that end until the message had arrived buffer                until
///   a send of its own had given back the buffer that the next action writes drain                 from the
///   rank's last action to the last action of any rank reduction             after that: sums over replicas
///   and copies, and the agreement of all ranks data, evaluation, checkpoint   the host said that it was
///   doing this, and the compute stream was idle host                  all inputs there, but the host had not
///   enqueued the action yet launch                enqueued and all inputs there: the stream's own delay (a
///   thread wakes up, a kernel
///                         starts)
///   unexplained           what is left
enum class Part : uint8_t {
  forward,
  backward_input,
  backward_weight,
  recompute,
  optimizer,
  fill,
  wait_forward,
  wait_backward,
  transfer,
  buffer,
  drain,
  reduction,
  data,
  host,
  launch,
  evaluation,
  checkpoint,
  unexplained,
};
inline constexpr size_t part_count = 18;
inline constexpr size_t first_idle_part = static_cast<size_t>(Part::fill);

/// "wait_forward"; a literal.
constexpr std::string_view name_of(Part part) {
  constexpr std::array<std::string_view, part_count> names{
      "forward",      "backward_input", "backward_weight", "recompute",  "optimizer",  "fill",
      "wait_forward", "wait_backward",  "transfer",        "buffer",     "drain",      "reduction",
      "data",         "host",           "launch",          "evaluation", "checkpoint", "unexplained"};
  return names[static_cast<size_t>(part)];
}

/// bubble = fill + drain + waiting for a peer + transfer, with the buffers that transfers hold.
constexpr bool is_bubble(Part part) {
  return part >= Part::fill && part <= Part::drain;
}
/// Pauses between steps, which no step is made of.
constexpr bool is_pause(Part part) {
  return part == Part::evaluation || part == Part::checkpoint;
}
constexpr bool is_idle(Part part) {
  return static_cast<size_t>(part) >= first_idle_part;
}

/// Seconds by part.
class PartSeconds {
 public:
  double& operator[](Part part) { return seconds_[static_cast<size_t>(part)]; }
  double operator[](Part part) const { return seconds_[static_cast<size_t>(part)]; }
  /// F + I + W + R: the rank's actions.
  double busy() const {
    return (*this)[Part::forward] + (*this)[Part::backward_input] + (*this)[Part::backward_weight] +
           (*this)[Part::recompute];
  }
  double bubble() const { return sum(is_bubble); }
  double idle() const { return sum(is_idle); }
  double pauses() const { return sum(is_pause); }
  double all() const {
    return sum([](Part) { return true; });
  }

 private:
  template <class Condition>
  double sum(Condition condition) const {
    double total = 0;
    for (size_t at = 0; at < part_count; ++at) total += condition(static_cast<Part>(at)) ? seconds_[at] : 0;
    return total;
  }
  std::array<double, part_count> seconds_{};
};

}  // namespace penstock::accounting
