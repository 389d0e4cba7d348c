#include "model/layout.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

namespace penstock::model::layout {

namespace {

// Without empty slices, by name, rank and first element.
Layout by_holder(const Layout& layout, const char* what) {
  Layout sorted;
  std::copy_if(layout.begin(), layout.end(), std::back_inserter(sorted),
               [](const Held& held) { return held.slice.elements() != 0; });
  std::sort(sorted.begin(), sorted.end(), [](const Held& a, const Held& b) {
    return std::tie(a.name, a.rank, a.slice.begin) < std::tie(b.name, b.rank, b.slice.begin);
  });
  for (size_t i = 0; i < sorted.size(); ++i) {
    const Held& held = sorted[i];
    const bool twice = i > 0 && sorted[i - 1].name == held.name && sorted[i - 1].rank == held.rank &&
                       sorted[i - 1].slice.end > held.slice.begin;
    if (!twice && held.slice.begin >= 0 && held.slice.elements() > 0) continue;
    throw LayoutError(fmt::format("{} layout: rank {} holds {}[{}:{}]{}", what, held.rank, held.name,
                                  held.slice.begin, held.slice.end,
                                  twice ? ", and some of it twice" : ", which are no elements"));
  }
  return sorted;
}

class Planner {
 public:
  explicit Planner(const Layout& from) : from_(by_holder(from, "old")) {
    for (size_t i = 0; i < from_.size(); ++i) holders_[from_[i].name].push_back(i);
  }

  void add(const Held& wanted, std::vector<Move>& plan) {
    for (int64_t at = wanted.slice.begin; at < wanted.slice.end;) {
      const Held& source = choose(wanted, at);
      int64_t end = std::min(source.slice.end, wanted.slice.end);
      if (source.rank != wanted.rank) {
        end = std::min(end, next_own(wanted, at));
        sent_[source.rank] += end - at;
      }
      plan.push_back({wanted.name, {at, end}, source.rank, wanted.rank});
      at = end;
    }
  }

 private:
  const Held& choose(const Held& wanted, int64_t at) {
    const Held* best = nullptr;
    for (const size_t index : holders_[wanted.name]) {
      const Held& held = from_[index];
      if (at < held.slice.begin || at >= held.slice.end) continue;
      if (held.rank == wanted.rank) return held;
      if (best == nullptr || sent_[held.rank] < sent_[best->rank]) best = &held;
    }
    if (best == nullptr) {
      throw LayoutError(fmt::format("new layout: rank {} holds {}[{}:{}], but nobody holds element {} now",
                                    wanted.rank, wanted.name, wanted.slice.begin, wanted.slice.end, at));
    }
    return *best;
  }

  // The first element behind `at` that the rank itself holds.
  int64_t next_own(const Held& wanted, int64_t at) {
    int64_t next = wanted.slice.end;
    for (const size_t index : holders_[wanted.name]) {
      const Held& held = from_[index];
      if (held.rank == wanted.rank && held.slice.begin > at) next = std::min(next, held.slice.begin);
    }
    return next;
  }

  Layout from_;
  std::map<std::string_view, std::vector<size_t>> holders_;  // ascending by rank
  std::map<int, int64_t> sent_;
};

}  // namespace

std::vector<Move> moves(const Layout& from, const Layout& to) {
  Planner planner(from);
  Layout wanted = by_holder(to, "new");
  std::sort(wanted.begin(), wanted.end(), [](const Held& a, const Held& b) {
    return std::tie(a.name, a.slice.begin, a.rank) < std::tie(b.name, b.slice.begin, b.rank);
  });
  std::vector<Move> plan;
  for (const Held& held : wanted) planner.add(held, plan);
  std::sort(plan.begin(), plan.end(), [](const Move& a, const Move& b) {
    return std::tie(a.name, a.slice.begin, a.destination) < std::tie(b.name, b.slice.begin, b.destination);
  });
  return plan;
}

}  // namespace penstock::model::layout
