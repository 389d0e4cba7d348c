#include <array>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/device/error.h"
#include "tests/kernels/transport/contract.h"

namespace penstock::transport {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

void subsets_have_their_own_ranks(Rank& rank) {
  // All ranks backwards; and the even ones, rotated.
  std::vector<int> backwards(static_cast<size_t>(rank.size()));
  std::iota(backwards.rbegin(), backwards.rend(), 0);
  std::vector<int> even;
  for (int i = 2; i < rank.size(); i += 2) even.push_back(i);
  even.push_back(0);
  const auto all = rank.world().create("backwards", backwards);
  const auto some = rank.world().create("even", even);
  Stream& stream = rank.stream("transfer");

  EXPECT_EQ(all->name(), "backwards");
  EXPECT_EQ(all->members(), backwards);
  EXPECT_EQ(all->rank(), rank.size() - 1 - rank.index());
  EXPECT_EQ(all->size(), rank.size());
  Buffer mine(DType::i32, 1);
  Buffer gathered(DType::i32, rank.size());
  mine.set(0, rank.index());
  all->all_gather(stream, mine.tensor(), gathered.tensor());
  stream.synchronize();
  EXPECT_EQ(difference(gathered, [&](int64_t i) { return backwards[static_cast<size_t>(i)]; }), "");

  ASSERT_EQ(some != nullptr, rank.index() % 2 == 0);
  if (!some) return;
  EXPECT_EQ(even[static_cast<size_t>(some->rank())], rank.index());
  Buffer passed(DType::i32, 1);
  const int next = (some->rank() + 1) % some->size();
  const int previous = (some->rank() + some->size() - 1) % some->size();
  some->exchange(stream, {receive_from(previous, passed.tensor()), send_to(next, mine.tensor())});
  stream.synchronize();
  EXPECT_EQ(passed.get(0), even[static_cast<size_t>(previous)]);
}

void hosts_agree(Rank& rank) {
  World& world = rank.world();
  const double index = rank.index();
  std::array<double, 3> sums{0.5 * index, 1.0, -index};
  world.all_reduce(sums, Reduction::sum);
  const int pairs = rank.size() * (rank.size() - 1) / 2;
  EXPECT_EQ(sums, (std::array<double, 3>{0.5 * pairs, 1.0 * rank.size(), -1.0 * pairs}));
  std::array<int64_t, 2> most{rank.index(), -rank.index()};
  world.all_reduce(most, Reduction::maximum);
  EXPECT_EQ(most, (std::array<int64_t, 2>{rank.size() - 1, 0}));
  std::array<int64_t, 1> least{int64_t{1} << 40 << rank.index()};
  world.all_reduce(least, Reduction::minimum);
  EXPECT_EQ(least[0], int64_t{1} << 40);
  std::array<uint64_t, 1> flags{uint64_t{1} << (60 - rank.index())};
  world.all_or(flags);
  EXPECT_EQ(flags[0], ((uint64_t{1} << rank.size()) - 1) << (61 - rank.size()));
  world.all_reduce(std::span<double>(), Reduction::sum);

  const int root = rank.size() - 1;
  const std::string text("a\0b", 3);
  EXPECT_EQ(world.broadcast(rank.index() == root ? text : "ignored", root), text);
  EXPECT_EQ(world.broadcast("", 0), "");
  world.barrier();
  const std::vector<std::string> names = world.gather(std::string(static_cast<size_t>(rank.index()), 'x'));
  ASSERT_EQ(names.size(), rank.index() == 0 ? static_cast<size_t>(rank.size()) : 0);
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(names[i], std::string(i, 'x'));
}

void sums_of_hosts_have_the_same_bits(Rank& rank) {
  // 2^60 + 1 − 2^60 depends on the order; all must see the one of the ranks.
  constexpr double big = 1152921504606846976.0;
  constexpr std::array<double, 4> terms{big, 1.0, -big, 3.0};
  std::array<double, 1> sum{terms[static_cast<size_t>(rank.index() % 4)]};
  double expected = terms[0];
  for (int i = 1; i < rank.size(); ++i) expected += terms[static_cast<size_t>(i % 4)];
  rank.world().all_reduce(sum, Reduction::sum);
  EXPECT_EQ(sum[0], expected);
}

void disagreement_is_named(Rank& rank) {
  World& world = rank.world();
  if (rank.size() > 1) {
    EXPECT_THAT([&] { world.create(rank.index() == rank.size() - 1 ? "data" : "pipeline"); },
                ThrowsMessage<UsageError>(
                    AllOf(HasSubstr("world rank 0 creates communicator \"pipeline\" of world ranks 0 1"),
                          HasSubstr("creates \"data\""))));
    std::vector<double> values(rank.index() == 0 ? 2 : 3, 0.0);
    if (rank.index() <= 1) {
      EXPECT_THAT([&] { world.all_reduce(values, Reduction::sum); },
                  ThrowsMessage<UsageError>(HasSubstr("every rank gives as many")));
    } else {
      EXPECT_THROW(world.all_reduce(values, Reduction::sum), UsageError);
    }
  }
  // No harm was done.
  std::array<int64_t, 1> ranks{1};
  world.all_reduce(ranks, Reduction::sum);
  EXPECT_EQ(ranks[0], rank.size());
}

void misuse_is_refused_at_once(Rank& rank) {
  const auto all = rank.world().create("all");
  Stream& stream = rank.stream("transfer");
  Buffer four(DType::fp32, 4);
  const Buffer many(DType::fp32, 4 * rank.size());
  const Buffer bytes(DType::u8, 16);
  const auto refused = [](const auto& call, const char* why) {
    EXPECT_THAT(call, ThrowsMessage<UsageError>(AllOf(HasSubstr("communicator \"all\""), HasSubstr(why))));
  };
  refused([&] { all->exchange(stream, {send_to(rank.size(), four.tensor())}); }, "ranks are 0 to");
  refused([&] { all->exchange(stream, {receive_from(-1, four.tensor())}); }, "exchange with rank -1");
  refused([&] { all->exchange(stream, {send_to(0, Tensor(nullptr, DType::fp32, {3}))}); }, "absent tensor");
  refused([&] { all->broadcast(stream, four.tensor(), rank.size()); }, "broadcast");
  refused([&] { all->all_reduce(stream, bytes.tensor(), Reduction::sum); }, "one of fp32");
  refused([&] { all->all_reduce(stream, four.tensor(), four.part(0, 3), Reduction::sum); },
          "as many elements");
  refused([&] { all->all_reduce(stream, four.part(0, 2), four.part(1, 2), Reduction::sum); }, "overlaps");
  refused([&] { all->reduce_scatter(stream, many.tensor(), four.part(0, 3), Reduction::sum); },
          "times as many elements");
  refused([&] { all->reduce_scatter(stream, many.tensor(), many.part(0, 4), Reduction::sum); }, "overlaps");
  refused([&] { all->all_gather(stream, four.part(0, 3), many.tensor()); }, "times as many elements");
  refused([&] { all->all_gather(stream, bytes.part(0, 4), many.tensor()); }, "the same dtype");
  EXPECT_THROW(rank.world().create("none", {}), UsageError);
  EXPECT_THROW(rank.world().create("twice", {0, 0}), UsageError);
  EXPECT_THROW(rank.world().create("outside", {rank.size()}), UsageError);

  all->exchange(stream, std::span<const Message>());
  all->all_reduce(stream, four.fill(1).tensor(), Reduction::maximum);
  stream.synchronize();
  EXPECT_EQ(difference_from(four, 1), "") << "nothing was queued by what was refused";
}

constexpr std::array cases{
    ContractCase{"SubsetsHaveTheirOwnRanks", false, subsets_have_their_own_ranks},
    ContractCase{"HostsAgree", false, hosts_agree},
    ContractCase{"SumsOfHostsHaveTheSameBits", false, sums_of_hosts_have_the_same_bits},
    ContractCase{"DisagreementIsNamed", false, disagreement_is_named},
    ContractCase{"MisuseIsRefusedAtOnce", false, misuse_is_refused_at_once},
};

}  // namespace

std::span<const ContractCase> world_cases() {
  return cases;
}

}  // namespace penstock::transport
