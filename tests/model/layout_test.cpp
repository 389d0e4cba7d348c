#include "model/layout.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "model/rank_layout.h"
#include "tests/model/pipeline.h"

namespace penstock::testing {
namespace {

using model::layout::Held;
using model::layout::Layout;
using model::layout::LayoutError;
using model::layout::Move;
using model::layout::moves;

constexpr int ranks = 4;

/// A layout of parameters "a", "b", … of these sizes: each cut at random places, each piece on one rank or
/// more; if not `complete`, perhaps on none.
Layout random_layout(const std::vector<int>& sizes, bool complete, std::mt19937_64& random) {
  Layout layout;
  for (size_t parameter = 0; parameter < sizes.size(); ++parameter) {
    const std::string name(1, static_cast<char>('a' + parameter));
    for (int64_t begin = 0; begin < sizes[parameter];) {
      const auto left = static_cast<uint64_t>(sizes[parameter] - begin);
      const auto end = begin + 1 + static_cast<int64_t>(random() % left);
      std::set<int> holders;
      if (complete) holders.insert(static_cast<int>(random() % ranks));
      for (int rank = 0; rank < ranks; ++rank) {
        if (random() % 3 == 0) holders.insert(rank);
      }
      for (const int rank : holders) layout.push_back({name, {begin, end}, rank});
      begin = end;
    }
  }
  return layout;
}

/// (rank, name, element) that the layout holds.
std::set<std::tuple<int, std::string, int64_t>> elements_of(const Layout& layout) {
  std::set<std::tuple<int, std::string, int64_t>> all;
  for (const Held& held : layout) {
    for (int64_t at = held.slice.begin; at < held.slice.end; ++at) all.insert({held.rank, held.name, at});
  }
  return all;
}

RC_GTEST_PROP(Layout, MovesMakeTheNewLayout, ()) {
  const auto sizes = *rc::gen::container<std::vector<int>>(3, rc::gen::inRange(0, 30));
  std::mt19937_64 random(*rc::gen::arbitrary<uint64_t>());
  Layout from = random_layout(sizes, true, random);
  Layout to = random_layout(sizes, false, random);
  const std::vector<Move> plan = moves(from, to);
  const auto held = elements_of(from);
  auto wanted = elements_of(to);
  for (const Move& move : plan) {
    RC_ASSERT(move.slice.elements() > 0);
    for (int64_t at = move.slice.begin; at < move.slice.end; ++at) {
      RC_ASSERT(held.count({move.source, move.name, at}) == 1);
      // What is there is not sent.
      RC_ASSERT(move.source == move.destination || held.count({move.destination, move.name, at}) == 0);
      RC_ASSERT(wanted.erase({move.destination, move.name, at}) == 1);
    }
  }
  RC_ASSERT(wanted.empty());
  std::shuffle(from.begin(), from.end(), random);
  std::shuffle(to.begin(), to.end(), random);
  RC_ASSERT(moves(from, to) == plan);
}

RC_GTEST_PROP(Layout, ToItselfNothingIsSent, ()) {
  const auto sizes = *rc::gen::container<std::vector<int>>(3, rc::gen::inRange(1, 30));
  std::mt19937_64 random(*rc::gen::arbitrary<uint64_t>());
  const Layout layout = random_layout(sizes, true, random);
  for (const Move& move : moves(layout, layout)) RC_ASSERT(move.source == move.destination);
}

TEST(Layout, SpreadsWhatReplicasSend) {
  const Layout from{{"w", {0, 100}, 0}, {"w", {0, 100}, 1}, {"x", {0, 100}, 0}, {"x", {0, 100}, 1}};
  const Layout to{{"w", {0, 100}, 2}, {"x", {0, 100}, 2}};
  EXPECT_EQ(moves(from, to), (std::vector<Move>{{"w", {0, 100}, 0, 2}, {"x", {0, 100}, 1, 2}}));
}

TEST(Layout, KeepsWhatIsThereAndFetchesAround) {
  const Layout from{{"w", {0, 10}, 0}, {"w", {4, 6}, 1}};
  const Layout to{{"w", {2, 9}, 1}};
  EXPECT_EQ(moves(from, to),
            (std::vector<Move>{{"w", {2, 4}, 0, 1}, {"w", {4, 6}, 1, 1}, {"w", {6, 9}, 0, 1}}));
}

TEST(Layout, RefusesWhatCannotBe) {
  EXPECT_THROW(moves({{"w", {0, 4}, 0}}, {{"w", {0, 5}, 1}}), LayoutError);
  EXPECT_THROW(moves({}, {{"w", {0, 1}, 0}}), LayoutError);
  EXPECT_THROW(moves({{"w", {0, 4}, 0}, {"w", {3, 5}, 0}}, {}), LayoutError);
  EXPECT_THROW(moves({{"w", {0, 4}, 0}}, {{"w", {3, 1}, 0}}), LayoutError);
  EXPECT_TRUE(moves({}, {{"w", {3, 3}, 0}}).empty());
}

TEST(Layout, OfRanksWithATiedWeight) {
  const auto layout_of = [](const std::vector<std::pair<int, int>>& stages) {
    Layout layout;
    for (size_t rank = 0; rank < stages.size(); ++rank) {
      model::RankConfig config;
      config.model = small_gpt2();
      model::StageConfig stage;
      stage.begin = stages[rank].first;
      stage.end = stages[rank].second;
      config.stages = {stage};
      model::add_held(config, static_cast<int>(rank), layout);
    }
    return layout;
  };
  const Layout one = layout_of({{0, 6}});
  const Layout three = layout_of({{0, 2}, {2, 5}, {5, 6}});
  const auto copies = [](const Layout& layout) {
    return std::count_if(layout.begin(), layout.end(),
                         [](const Held& held) { return held.name == "embedding.token.weight"; });
  };
  EXPECT_EQ(copies(one), 1);
  EXPECT_EQ(copies(three), 2);
  EXPECT_EQ(three.size(), one.size() + 1);
  // Every parameter goes to its rank once, and what stays on rank 0 is not sent.
  const std::vector<Move> plan = moves(one, three);
  EXPECT_EQ(plan.size(), three.size());
  EXPECT_EQ(std::count_if(plan.begin(), plan.end(), [](const Move& move) { return move.destination == 0; }),
            std::count_if(three.begin(), three.end(), [](const Held& held) { return held.rank == 0; }));
  EXPECT_EQ(moves(three, one).size(), one.size());
}

}  // namespace
}  // namespace penstock::testing
