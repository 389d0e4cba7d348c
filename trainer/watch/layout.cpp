#include "trainer/watch/layout.h"

#include <algorithm>

namespace penstock::watch {
namespace {

constexpr int kSparklines = 3;
constexpr int kFewRanks = 4;
constexpr int kFewEvents = 2;
constexpr int kManyEvents = 12;

class Purse {
 public:
  explicit Purse(int rows) : left_(rows) {}
  // Raises a height to `most`, or as far as it goes.
  void spend(int& height, int most) {
    const int more = std::clamp(most - height, 0, std::max(0, left_));
    height += more;
    left_ -= more;
  }
  int left() const { return left_; }

 private:
  int left_;
};

int gaps_between(const Heights& heights) {
  int parts = 1;  // header and progress
  parts += heights.sparklines > 0 ? 1 : 0;
  parts += heights.ranks > 0 ? 1 : 0;
  parts += heights.budget > 0 ? 1 : 0;
  parts += heights.advice > 0 ? 1 : 0;
  parts += heights.events > 0 ? 1 : 0;
  return parts - 1;
}

}  // namespace

int Heights::total() const {
  return header + progress + sparklines + ranks + legend + budget + advice + events +
         (gaps ? gaps_between(*this) : 0);
}

Heights share_out(const Wanted& wanted, int rows) {
  Heights made;
  const int sparklines = wanted.steps ? kSparklines : 0;
  if (rows <= 0) {
    made.sparklines = sparklines;
    made.ranks = wanted.ranks;
    made.legend = wanted.ranks > 0 ? 1 : 0;
    made.budget = wanted.budget;
    made.advice = wanted.advice;
    made.events = std::min(wanted.events, kManyEvents);
    made.gaps = true;
    return made;
  }
  Purse purse(rows - made.header - made.progress);
  purse.spend(made.ranks, std::min(wanted.ranks, kFewRanks));
  purse.spend(made.budget, wanted.budget);
  purse.spend(made.sparklines, std::min(sparklines, 1));
  if (wanted.ranks > 0) purse.spend(made.legend, 1);
  purse.spend(made.advice, std::min(wanted.advice, 1));
  purse.spend(made.sparklines, sparklines);
  purse.spend(made.events, std::min(wanted.events, kFewEvents));
  purse.spend(made.ranks, wanted.ranks);
  purse.spend(made.advice, wanted.advice);
  if (const int gaps = gaps_between(made) + (made.events == 0 && wanted.events > 0 ? 1 : 0);
      purse.left() >= gaps) {
    int spent = 0;
    purse.spend(spent, gaps);
    made.gaps = true;
  }
  purse.spend(made.events, wanted.events);
  return made;
}

}  // namespace penstock::watch
