#include <algorithm>
#include <array>
#include <functional>

#include <gtest/gtest.h>

#include "tests/kernels/transport/contract.h"

namespace penstock::transport {
namespace {

constexpr std::array every_dtype{DType::fp32, DType::bf16, DType::fp16, DType::fp64,
                                 DType::i32,  DType::i64,  DType::u8};
constexpr std::array reducible_dtypes{DType::fp32, DType::bf16, DType::fp16,
                                      DType::fp64, DType::i32,  DType::i64};
constexpr std::array every_reduction{Reduction::sum, Reduction::maximum, Reduction::minimum};

/// Element `i` of the reduction of the ranks' patterns.
int reduced(Reduction reduction, int ranks, int64_t i) {
  int value = Buffer::pattern(0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const int theirs = Buffer::pattern(rank, i);
    value = reduction == Reduction::sum       ? value + theirs
            : reduction == Reduction::maximum ? std::max(value, theirs)
                                              : std::min(value, theirs);
  }
  return value;
}

void all_reduce(Rank& rank) {
  const auto all = rank.world().create("all");
  Stream& stream = rank.stream("reduce");
  for (const DType dtype : reducible_dtypes) {
    for (const Reduction reduction : every_reduction) {
      for (const int64_t elements : {0, 1, 3, 1029, 20001}) {
        Buffer input(dtype, elements);
        Buffer output(dtype, elements);
        input.fill(rank.index());
        all->all_reduce(stream, input.tensor(), output.tensor(), reduction);
        stream.synchronize();
        const auto expected = [&](int64_t i) { return reduced(reduction, rank.size(), i); };
        EXPECT_EQ(difference(output, expected), "")
            << name_of(dtype) << ", " << name_of(reduction) << ", " << elements;
        EXPECT_EQ(difference_from(input, rank.index()), "");
        all->all_reduce(stream, input.tensor(), reduction);
        stream.synchronize();
        EXPECT_EQ(difference(input, expected), "")
            << "in place, " << name_of(dtype) << ", " << name_of(reduction) << ", " << elements;
      }
    }
  }
}

void reduce_scatter(Rank& rank) {
  const auto all = rank.world().create("all");
  Stream& stream = rank.stream("reduce");
  for (const DType dtype : reducible_dtypes) {
    for (const Reduction reduction : every_reduction) {
      for (const int64_t elements : {0, 1, 7, 9001}) {
        Buffer input(dtype, elements * rank.size());
        Buffer output(dtype, elements);
        input.fill(rank.index());
        all->reduce_scatter(stream, input.tensor(), output.tensor(), reduction);
        stream.synchronize();
        EXPECT_EQ(difference(output,
                             [&](int64_t i) {
                               return reduced(reduction, rank.size(), rank.index() * elements + i);
                             }),
                  "")
            << name_of(dtype) << ", " << name_of(reduction) << ", " << elements;
        EXPECT_EQ(difference_from(input, rank.index()), "");
      }
    }
  }
}

void all_gather(Rank& rank) {
  const auto all = rank.world().create("all");
  Stream& stream = rank.stream("gather");
  for (const DType dtype : every_dtype) {
    for (const int64_t elements : {0, 1, 5, 12001}) {
      Buffer input(dtype, elements);
      Buffer output(dtype, elements * rank.size());
      Buffer in_place(dtype, elements * rank.size());
      input.fill(rank.index());
      for (int64_t i = 0; i < elements; ++i)
        in_place.set(rank.index() * elements + i, Buffer::pattern(rank.index(), i));
      all->all_gather(stream, input.tensor(), output.tensor());
      all->all_gather(stream, in_place.part(rank.index() * elements, elements), in_place.tensor());
      stream.synchronize();
      const auto expected = [&](int64_t i) {
        return Buffer::pattern(static_cast<int>(i / elements), i % elements);
      };
      EXPECT_EQ(difference(output, expected), "") << name_of(dtype) << ", " << elements;
      EXPECT_EQ(difference(in_place, expected), "") << "in place, " << name_of(dtype) << ", " << elements;
    }
  }
}

void broadcast(Rank& rank) {
  const auto all = rank.world().create("all");
  Stream& stream = rank.stream("broadcast");
  for (const DType dtype : every_dtype) {
    for (const int64_t elements : {0, 1, 5, 30001}) {
      for (int root = 0; root < rank.size(); ++root) {
        Buffer tensor(dtype, elements);
        if (rank.index() == root) tensor.fill(root);
        all->broadcast(stream, tensor.tensor(), root);
        stream.synchronize();
        EXPECT_EQ(difference_from(tensor, root), "")
            << name_of(dtype) << ", " << elements << ", from " << root;
      }
    }
  }
}

void collectives_and_messages_follow_each_other_unwaited(Rank& rank) {
  constexpr int rounds = 25;
  constexpr int64_t elements = 301;
  const auto all = rank.world().create("all");
  Stream& stream = rank.stream("both");
  std::vector<Buffer> values;
  std::vector<Buffer> passed;
  std::vector<Buffer> gathered;
  for (int i = 0; i < rounds; ++i) {
    values.emplace_back(DType::fp32, elements).fill(rank.index());
    passed.emplace_back(DType::fp32, elements);
    gathered.emplace_back(DType::fp32, elements * rank.size());
  }
  for (size_t i = 0; i < rounds; ++i) {
    all->all_reduce(stream, values[i].tensor(), Reduction::sum);
    all->exchange(stream, {send_to(rank.next(), values[i].tensor()),
                           receive_from(rank.previous(), passed[i].tensor())});
    all->barrier(stream);
    all->all_gather(stream, passed[i].tensor(), gathered[i].tensor());
  }
  stream.synchronize();
  for (size_t i = 0; i < rounds; ++i) {
    EXPECT_EQ(difference(gathered[i],
                         [&](int64_t e) { return reduced(Reduction::sum, rank.size(), e % elements); }),
              "")
        << "round " << i;
  }
}

void collectives_match_in_the_order_of_enqueueing(Rank& rank) {
  // The ranks hand the operations of one communicator to different streams.
  constexpr int operations = 30;
  const auto all = rank.world().create("all");
  std::vector<Buffer> values;
  for (int i = 0; i < operations; ++i) {
    values.emplace_back(DType::i32, 40);
    for (int64_t e = 0; e < 40; ++e) values.back().set(e, rank.index() + i);
  }
  for (int i = 0; i < operations; ++i) {
    Stream& stream = rank.stream((i + rank.index()) % 3 == 0 ? "a" : "b");
    all->all_reduce(stream, values[static_cast<size_t>(i)].tensor(), Reduction::maximum);
  }
  rank.synchronize();
  for (int i = 0; i < operations; ++i) {
    EXPECT_EQ(difference(values[static_cast<size_t>(i)], [&](int64_t) { return rank.size() - 1 + i; }), "")
        << "operation " << i;
  }
}

void communicators_work_at_once(Rank& rank) {
  // Three communicators on three streams; each rank enqueues them in another order.
  constexpr int rounds = 12;
  constexpr int64_t elements = 500;
  std::vector<std::unique_ptr<Communicator>> communicators;
  std::vector<std::vector<Buffer>> values(3);
  for (int i = 0; i < 3; ++i) {
    communicators.push_back(rank.world().create("communicator " + std::to_string(i)));
    for (int round = 0; round < rounds; ++round)
      values[static_cast<size_t>(i)].emplace_back(DType::fp32, elements).fill(rank.index());
  }
  for (size_t round = 0; round < rounds; ++round) {
    for (int i = 0; i < 3; ++i) {
      const auto which = static_cast<size_t>((i + rank.index()) % 3);
      Stream& stream = rank.stream(communicators[which]->name());
      communicators[which]->all_reduce(stream, values[which][round].tensor(),
                                       which == 0 ? Reduction::sum : Reduction::maximum);
    }
  }
  rank.synchronize();
  for (size_t which = 0; which < 3; ++which) {
    for (const Buffer& buffer : values[which]) {
      EXPECT_EQ(difference(buffer,
                           [&](int64_t i) {
                             return reduced(which == 0 ? Reduction::sum : Reduction::maximum, rank.size(), i);
                           }),
                "");
    }
  }
}

constexpr std::array cases{
    ContractCase{"AllReduce", false, all_reduce},
    ContractCase{"ReduceScatter", false, reduce_scatter},
    ContractCase{"AllGather", false, all_gather},
    ContractCase{"Broadcast", false, broadcast},
    ContractCase{"CollectivesAndMessagesFollowEachOtherUnwaited", false,
                 collectives_and_messages_follow_each_other_unwaited},
    ContractCase{"CollectivesMatchInTheOrderOfEnqueueing", false,
                 collectives_match_in_the_order_of_enqueueing},
    ContractCase{"CommunicatorsWorkAtOnce", true, communicators_work_at_once},
};

}  // namespace

std::span<const ContractCase> collective_cases() {
  return cases;
}

}  // namespace penstock::transport
