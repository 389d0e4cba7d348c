#include "parallel/planner/unit_costs.h"

namespace penstock::planner {

const char* to_string(Recompute mode) {
  switch (mode) {
    case Recompute::none:
      return "none";
    case Recompute::selective:
      return "selective";
    case Recompute::full:
      return "full";
  }
  return "?";
}

}  // namespace penstock::planner
