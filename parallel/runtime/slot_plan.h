#pragma once

#include <vector>

#include "model/slot.h"
#include "parallel/schedule/program.h"

namespace penstock::runtime {

/// Which slots of a stage's pools every compute instruction of a rank uses, and how many there are. A forward
/// slot is taken by F and free after I; a kept slot is taken by F, a weight slot by I, and both are free
/// after W. Where nothing follows F, its slots are free at once. The lowest free slot is taken.
struct SlotPlan {
  struct Counts {
    int forward = 1;
    int kept = 1;
    int weight = 1;
  };
  std::vector<model::SlotIds> slots;  ///< (instructions of the rank); zeros where it does not compute
  std::vector<Counts> counts;         ///< (all stages of the program)
};

SlotPlan plan_slots(const schedule::Program& program, int rank);

}  // namespace penstock::runtime
