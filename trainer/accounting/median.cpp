#include "trainer/accounting/median.h"

#include "parallel/schedule/middle.h"

namespace penstock::accounting {

double median(std::vector<double> values) {
  return schedule::middle(values);
}

}  // namespace penstock::accounting
