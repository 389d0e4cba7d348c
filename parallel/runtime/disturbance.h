#pragma once

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/schedule/program.h"

namespace penstock::runtime {

/// A disturbance that cannot be read: the text, what is wrong in it, and what would work.
class DisturbanceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What goes wrong in a replay, and when.
struct Disturbance {
  enum class Kind : uint8_t {
    rank,        ///< all that a rank computes takes `factor` times as long
    stage,       ///< the same of a stage
    host,        ///< a rank's host enqueues every action `seconds` late
    data,        ///< a rank's data comes `seconds` late, at the step's start
    link,        ///< messages of a directed link arrive `seconds` later
    evaluation,  ///< all ranks pause for `seconds` before the step
    checkpoint,  ///< the same
  };
  Kind kind = Kind::rank;
  int from = 0;  ///< rank, stage, or the link's source
  int to = 0;    ///< link: its destination
  double factor = 1;
  double seconds = 0;
  // The steps first, first + every, …, up to last.
  uint64_t first = 0;
  uint64_t last = std::numeric_limits<uint64_t>::max();
  uint64_t every = 1;

  bool applies(uint64_t step) const { return step >= first && step <= last && (step - first) % every == 0; }
  bool operator==(const Disturbance&) const = default;
};

/// Reads
///   [step N | step N.. | step N..M] [every K] WHAT
/// where WHAT is one of
///   rank R slower 20% | rank R faster 20% | stage S slower 20% | stage S faster 20%
///   rank R host +2ms | rank R data +100ms | link A->B +5ms
///   evaluation pause 400ms | checkpoint pause 2s
/// with times in us, ms or s, above 0 and up to 1e6 s, and shares above 0 (slower: up to 1e6 %). Without a
/// step: all of them.
Disturbance read_disturbance(std::string_view text);
/// The text again.
std::string to_string(const Disturbance& disturbance);

/// DisturbanceError where one names a rank or stage that is not there, or a link that no message takes.
void require_fitting(const std::vector<Disturbance>& disturbances, const schedule::Program& program);
/// DisturbanceError where one applies to none of the steps first … first + steps − 1.
void require_within(const std::vector<Disturbance>& disturbances, uint64_t first, uint64_t steps);

}  // namespace penstock::runtime
