#pragma once

#include <stdexcept>
#include <vector>

namespace penstock::planner {

/// A partition that cannot be made; the message gives the numbers.
class PartitionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Cuts units into `stages` runs, none empty, so that the dearest run is as cheap as it can be, and among
/// those cuts the sum of squares is least; of equals, the one with more units in front. Returns the number of
/// units of each stage. PartitionError where there are more stages than units, or no stage.
std::vector<int> cut_evenly(const std::vector<double>& unit_costs, int stages);

}  // namespace penstock::planner
