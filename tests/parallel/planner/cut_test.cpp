#include "parallel/planner/cut.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace penstock::planner {
namespace {

double dearest(const std::vector<double>& costs, const std::vector<int>& counts) {
  double most = 0;
  auto at = costs.begin();
  for (const int count : counts) {
    most = std::max(most, std::accumulate(at, at + count, 0.0));
    at += count;
  }
  return most;
}

TEST(Cut, Balances) {
  EXPECT_EQ(cut_evenly({1, 1, 1, 1, 1, 1, 1, 1}, 4), (std::vector<int>{2, 2, 2, 2}));
  EXPECT_EQ(cut_evenly({0, 1, 1, 1, 1, 0}, 2), (std::vector<int>{3, 3}));
  EXPECT_EQ(cut_evenly({1, 1, 1, 1, 9}, 3), (std::vector<int>{2, 2, 1}));
  EXPECT_EQ(cut_evenly({5, 1}, 2), (std::vector<int>{1, 1}));
  EXPECT_EQ(cut_evenly({0, 0, 0}, 2), (std::vector<int>{2, 1}));
}

TEST(Cut, RefusesEmptyStagesWithNumbers) {
  try {
    cut_evenly({1, 2, 3}, 4);
    FAIL();
  } catch (const PartitionError& error) {
    EXPECT_NE(std::string(error.what()).find("4 stages of 3 units"), std::string::npos) << error.what();
  }
  EXPECT_THROW(cut_evenly({1, 2}, 0), PartitionError);
}

RC_GTEST_PROP(Cut, NoCutIsBetter, ()) {
  const auto costs =
      *rc::gen::resize(9, rc::gen::nonEmpty(rc::gen::container<std::vector<double>>(rc::gen::map(
                              rc::gen::inRange(0, 20), [](int cost) { return static_cast<double>(cost); }))));
  const int units = static_cast<int>(costs.size());
  const int stages = *rc::gen::inRange(1, units + 1);
  const std::vector<int> found = cut_evenly(costs, stages);
  RC_ASSERT(static_cast<int>(found.size()) == stages);
  RC_ASSERT(*std::min_element(found.begin(), found.end()) >= 1);
  RC_ASSERT(std::accumulate(found.begin(), found.end(), 0) == units);
  std::vector<int> tried;
  const std::function<void(int)> try_all = [&](int left) {
    if (static_cast<int>(tried.size()) + 1 == stages) {
      tried.push_back(left);
      RC_ASSERT(dearest(costs, found) <= dearest(costs, tried));
      tried.pop_back();
      return;
    }
    const int after = stages - static_cast<int>(tried.size()) - 1;
    for (int count = 1; count <= left - after; ++count) {
      tried.push_back(count);
      try_all(left - count);
      tried.pop_back();
    }
  };
  try_all(units);
}

}  // namespace
}  // namespace penstock::planner
