#include "trainer/accounting/summary.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace penstock::accounting {
namespace {

constexpr size_t kept_culprits = 4;

struct Head {
  double begin = 0;
  double end = 0;
  double first_rank = 0;
  double first_action = 0;
  double last_action = 0;
  double micro_batch_latency = 0;
  double clock_error = 0;
  double memory_peak = 0;
};

struct RankSummary {
  PartSeconds parts;
  double first_start = 0;
  double last_end = 0;
  std::array<std::array<Culprit, kept_culprits>, 3> culprits{};
};

std::array<Culprit, kept_culprits> largest(const std::vector<Culprit>& all) {
  std::array<Culprit, kept_culprits> kept{};
  std::partial_sort_copy(all.begin(), all.end(), kept.begin(), kept.end(),
                         [](const Culprit& a, const Culprit& b) { return a.seconds > b.seconds; });
  return kept;
}

void assign(const std::array<Culprit, kept_culprits>& kept, std::vector<Culprit>& all) {
  all.clear();
  for (const Culprit& culprit : kept) {
    if (culprit.seconds > 0) all.push_back(culprit);
  }
}

}  // namespace

size_t summary_bytes(size_t ranks, size_t stages) {
  return sizeof(Head) + ranks * sizeof(RankSummary) + stages * sizeof(double);
}

void write_summary(const StepAccount& account, std::span<std::byte> bytes) {
  const Head head{account.begin,        account.end,         static_cast<double>(account.first_rank),
                  account.first_action, account.last_action, account.micro_batch_latency,
                  account.clock_error,  account.memory_peak};
  std::memcpy(bytes.data(), &head, sizeof head);
  std::byte* to = bytes.data() + sizeof head;
  for (const RankAccount& rank : account.ranks) {
    const RankSummary written{rank.parts,
                              rank.first_start,
                              rank.last_end,
                              {largest(rank.peers), largest(rank.roots), largest(rank.links)}};
    std::memcpy(to, &written, sizeof written);
    to += sizeof written;
  }
  std::memcpy(to, account.stage_busy.data(), account.stage_busy.size() * sizeof(double));
}

void read_summary(std::span<const std::byte> bytes, StepAccount& account) {
  Head head;
  std::memcpy(&head, bytes.data(), sizeof head);
  account.begin = head.begin;
  account.end = head.end;
  account.first_rank = static_cast<int>(head.first_rank);
  account.first_action = head.first_action;
  account.last_action = head.last_action;
  account.micro_batch_latency = head.micro_batch_latency;
  account.clock_error = head.clock_error;
  account.memory_peak = head.memory_peak;
  const std::byte* from = bytes.data() + sizeof head;
  for (RankAccount& rank : account.ranks) {
    RankSummary read;
    std::memcpy(&read, from, sizeof read);
    from += sizeof read;
    rank.parts = read.parts;
    rank.first_start = read.first_start;
    rank.last_end = read.last_end;
    assign(read.culprits[0], rank.peers);
    assign(read.culprits[1], rank.roots);
    assign(read.culprits[2], rank.links);
  }
  std::memcpy(account.stage_busy.data(), from, account.stage_busy.size() * sizeof(double));
}

}  // namespace penstock::accounting
