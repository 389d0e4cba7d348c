// Which instruction of a program waits for which: as the streams' events will make it, and which send meets
// which receive.
#pragma once

#include <array>
#include <vector>

#include "parallel/schedule/program.h"
#include "parallel/schedule/validate.h"

namespace penstock::schedule {

// Instructions are numbered rank by rank, in list order; −1 stands for "none".
struct Wiring {
  // (P + 1): a rank's first instruction.
  std::vector<int> first;
  // Earlier instructions of the same rank: those that wrote what it reads, or still use what it overwrites.
  std::vector<std::array<int, 3>> waits_for;
  // The other side of a transfer or of a collective over two pipeline ranks.
  std::vector<int> partner;

  int size() const { return first.back(); }
  int rank_of(int id) const;
  const Instruction& at(const Program& program, int id) const;
};

// The i-th send from a rank to another meets the i-th receive posted there for it, as transports match them;
// the same for the collectives of two ranks. Where the two sides disagree about what is carried, or one is
// missing, `found` says so and the wiring is not complete.
Wiring wire(const Program& program, std::vector<Violation>& found);

}  // namespace penstock::schedule
