// Valid schedules and programs, broken one change at a time. The validator must find every change that the
// oracle finds fatal, and name rank, action and reason; and must not complain about one that is harmless.
#include <functional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/parallel/schedule/lowered.h"
#include "tests/parallel/schedule/oracle.h"

namespace penstock::schedule {
namespace {

struct Tally {
  int fatal = 0;
  int harmless = 0;
};

template <class Subject>
void expect_verdict(const Subject& mutant, const std::string& change, Tally& tally) {
  const std::string problem = oracle::problem(mutant);
  const std::vector<Violation> found = validate(mutant);
  if (problem.empty()) {
    ++tally.harmless;
    EXPECT_TRUE(found.empty()) << change << " is harmless, but: " << found[0].text();
    return;
  }
  ++tally.fatal;
  ASSERT_FALSE(found.empty()) << change << " is fatal (" << problem << "), but was not found";
  EXPECT_THAT(found[0].text(), testing::MatchesRegex("rank [0-9]+, (#[0-9]+ )?[^:]+: .+")) << change;
}

std::vector<Schedule> subjects() {
  std::vector<Schedule> all;
  for (const ScheduleKind& kind : schedule_kinds()) all.push_back(generate(kind.name, {2, 4}));
  for (const ScheduleKind& kind : schedule_kinds()) {
    if (kind.max_chunks > 2) all.push_back(generate(kind.name, {3, 6, 2}));
  }
  all.push_back(generate("1f1b", {3, 4, 0, 1}));
  all.push_back(generate("zb-h1", {3, 2}));
  all.push_back(generate("2bw", {2, 3, 0, 0, 0, 2}));
  return all;
}

Program lowered(const Schedule& schedule) {
  LoweringOptions options;
  options.tied_embeddings = true;
  options.sharded_optimizer = true;
  return lower(schedule, uniform_costs(schedule.ranks, schedule.chunks, {1, 1, 1}, 0.1), options);
}

TEST(Mutations, TheOracleAcceptsWhatIsValid) {
  for (const Schedule& schedule : subjects()) {
    EXPECT_EQ(oracle::problem(schedule), "") << schedule.name;
    EXPECT_EQ(oracle::problem(lowered(schedule)), "") << schedule.name;
  }
}

TEST(Mutations, OfSchedules) {
  Tally tally;
  for (const Schedule& schedule : subjects()) {
    for (size_t rank = 0; rank < schedule.actions.size(); ++rank) {
      for (size_t i = 0; i < schedule.actions[rank].size(); ++i) {
        const Action action = schedule.actions[rank][i];
        const std::string place = schedule.name + " rank " + std::to_string(rank) + " " + to_string(action);
        const auto at = static_cast<std::ptrdiff_t>(i);

        Schedule dropped = schedule;
        dropped.actions[rank].erase(dropped.actions[rank].begin() + at);
        expect_verdict(dropped, "dropping " + place, tally);
        EXPECT_EQ(validate(dropped)[0].rank, static_cast<int>(rank));

        Schedule doubled = schedule;
        doubled.actions[rank].insert(doubled.actions[rank].begin() + at, action);
        expect_verdict(doubled, "doubling " + place, tally);
        EXPECT_EQ(validate(doubled)[0].action, to_string(action));
        EXPECT_EQ(validate(doubled)[0].position, static_cast<int>(i) + 1);

        Schedule renamed = schedule;
        ++renamed.actions[rank][i].micro_batch;
        expect_verdict(renamed, "renumbering " + place, tally);

        Schedule moved = schedule;
        const size_t other = (rank + 1) % schedule.actions.size();
        moved.actions[other].push_back(action);
        moved.actions[rank].erase(moved.actions[rank].begin() + at);
        expect_verdict(moved, "moving to another rank " + place, tally);

        for (size_t k = i + 1; k < schedule.actions[rank].size(); ++k) {
          Schedule swapped = schedule;
          std::swap(swapped.actions[rank][i], swapped.actions[rank][k]);
          expect_verdict(swapped, "swapping with #" + std::to_string(k) + " " + place, tally);
        }
      }
    }
  }
  EXPECT_GT(tally.fatal, 5000);
  EXPECT_GT(tally.harmless, 100);
}

TEST(Mutations, OfPrograms) {
  Tally tally;
  for (const Schedule& schedule : subjects()) {
    const Program program = lowered(schedule);
    for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
      const std::vector<Instruction>& list = program.ranks[rank].instructions;
      for (size_t i = 0; i < list.size(); ++i) {
        const std::string place = schedule.name + " rank " + std::to_string(rank) + " #" + std::to_string(i) +
                                  " " + to_string(list[i]);
        const auto mutate = [&](const std::string& change,
                                const std::function<void(std::vector<Instruction>&)>& apply) {
          Program mutant = program;
          apply(mutant.ranks[rank].instructions);
          expect_verdict(mutant, change + " " + place, tally);
        };
        const auto at = static_cast<std::ptrdiff_t>(i);
        mutate("dropping", [&](auto& x) { x.erase(x.begin() + at); });
        mutate("doubling", [&](auto& x) { x.insert(x.begin() + at, x[i]); });
        if (i + 1 < list.size())
          mutate("swapping with the next", [&](auto& x) { std::swap(x[i], x[i + 1]); });
        if (i + 2 < list.size())
          mutate("swapping with the one after", [&](auto& x) { std::swap(x[i], x[i + 2]); });
        mutate("shifting the slot", [&](auto& x) { ++x[i].slot; });
        mutate("shifting the W slot", [&](auto& x) { ++x[i].weight_slot; });
        mutate("shifting the buffer read", [&](auto& x) { ++x[i].input.index; });
        mutate("shifting the buffer written", [&](auto& x) { ++x[i].output.index; });
        mutate("shifting down the buffer written", [&](auto& x) { --x[i].output.index; });
        mutate("marking the last", [&](auto& x) { x[i].last = !x[i].last; });
      }
    }
  }
  EXPECT_GT(tally.fatal, 5000);
  EXPECT_GT(tally.harmless, 100);
}

// Two transfers change places in the global order, on all ranks alike: some of these still run, some
// deadlock.
TEST(Mutations, CrossedTransfers) {
  Tally tally;
  for (const Schedule& schedule : subjects()) {
    const Program program = lowered(schedule);
    for (int first = 0; first + 1 < program.orders; ++first) {
      for (const int second : {first + 1, first + 2, first + 5}) {
        if (second >= program.orders) continue;
        Program mutant = program;
        for (RankProgram& rank : mutant.ranks) {
          std::vector<size_t> places;
          for (size_t i = 0; i < rank.instructions.size(); ++i) {
            Instruction& at = rank.instructions[i];
            if (at.order == first || at.order == second) at.order = first + second - at.order;
            if (at.order >= 0) places.push_back(i);
          }
          std::vector<Instruction> sorted;
          for (const size_t i : places) sorted.push_back(rank.instructions[i]);
          std::stable_sort(sorted.begin(), sorted.end(),
                           [](const Instruction& a, const Instruction& b) { return a.order < b.order; });
          for (size_t i = 0; i < places.size(); ++i) rank.instructions[places[i]] = sorted[i];
        }
        expect_verdict(
            mutant, schedule.name + " crossing " + std::to_string(first) + " and " + std::to_string(second),
            tally);
      }
    }
  }
  EXPECT_GT(tally.fatal, 300);
  EXPECT_GT(tally.harmless, 50);
}

}  // namespace
}  // namespace penstock::schedule
