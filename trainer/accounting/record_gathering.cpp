#include "trainer/accounting/record_gathering.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "trainer/accounting/record.h"
#include "trainer/accounting/summary.h"

namespace penstock::accounting {
namespace {

Tensor bytes_of(std::span<std::byte> record) {
  return {record.data(), DType::u8, Shape{static_cast<int64_t>(record.size())}};
}

}  // namespace

RecordGathering::RecordGathering(transport::World& world, Device& device,
                                 const std::vector<std::vector<int>>& pipelines,
                                 const schedule::Program& program)
    : world_(world), device_(device), abort_(world) {
  const size_t ranks = program.ranks.size();
  std::vector<int> leaders;
  for (size_t replica = 0; replica < pipelines.size(); ++replica) {
    const std::vector<int>& members = pipelines[replica];
    leaders.push_back(members.front());
    auto communicator = ranks > 1 ? world.create(fmt::format("accounting.{}", replica), members) : nullptr;
    const auto ours = std::find(members.begin(), members.end(), world.rank());
    if (ours == members.end()) continue;
    replica_ = replica;
    place_ = static_cast<size_t>(ours - members.begin());
    pipeline_ = std::move(communicator);
  }
  if (leaders.size() > 1) leaders_ = world.create("accounting.leaders", leaders);
  accounts_.resize(leads() && world.rank() == 0 ? pipelines.size() : 1);
  summaries_.resize(accounts_.size());
  stream_ = device.create_stream("accounting", StreamUse::transfer);
  take_program(program);
}

void RecordGathering::take_program(const schedule::Program& program) {
  const auto stages_by_rank = program.schedule.stages_by_rank();
  const size_t ranks = program.ranks.size();
  times_.assign(ranks, {});
  records_.assign(ranks, {});
  std::vector<size_t> sizes(ranks);
  size_t bytes = 0;
  for (size_t rank = 0; rank < ranks; ++rank) {
    if (!leads() && rank != place_) continue;
    times_[rank].instructions.resize(program.ranks[rank].instructions.size());
    times_[rank].recompute.resize(stages_by_rank[rank].size());
    if (rank == place_ && leads()) continue;  // it does not travel
    sizes[rank] = record_bytes(times_[rank].instructions.size(), times_[rank].recompute.size());
    bytes += sizes[rank];
  }
  StepAccount account;
  account.ranks.resize(ranks);
  account.stage_busy.resize(static_cast<size_t>(program.schedule.stages()));
  std::fill(accounts_.begin(), accounts_.end(), account);
  const size_t summary = summary_bytes(ranks, account.stage_busy.size());
  memory_ = device_.create_host_memory("records of steps", bytes + summaries_.size() * summary);
  std::byte* next = memory_->as<std::byte>();
  const auto take = [&next](size_t size) { return std::span(std::exchange(next, next + size), size); };
  for (size_t rank = 0; rank < ranks; ++rank) records_[rank] = take(sizes[rank]);
  for (std::span<std::byte>& each : summaries_) each = take(summary);
}

// In groups that are held without allocating.
void RecordGathering::exchange(transport::Communicator& communicator) {
  std::span<const transport::Message> rest = messages_;
  while (!rest.empty()) {
    const size_t count = std::min(rest.size(), transport::TransferGroup::in_place);
    communicator.exchange(*stream_, rest.first(count));
    rest = rest.subspan(count);
  }
}

void RecordGathering::send() {
  if (!pipeline_) return;
  messages_.clear();
  if (leads()) {
    for (size_t rank = 1; rank < records_.size(); ++rank)
      messages_.push_back(transport::receive_from(static_cast<int>(rank), bytes_of(records_[rank])));
  } else {
    write_record(own(), records_[place_]);
    messages_.push_back(transport::send_to(0, bytes_of(records_[place_])));
  }
  exchange(*pipeline_);
}

std::span<const RankTimes> RecordGathering::receive() {
  stream_->synchronize();
  if (!leads()) return {};
  for (size_t rank = 1; rank < records_.size(); ++rank) read_record(records_[rank], times_[rank]);
  return times_;
}

std::span<const StepAccount> RecordGathering::share(const StepAccount& account) {
  accounts_.front() = account;
  if (!leaders_) return accounts_;
  messages_.clear();
  if (world_.rank() == 0) {
    for (size_t replica = 1; replica < summaries_.size(); ++replica)
      messages_.push_back(transport::receive_from(static_cast<int>(replica), bytes_of(summaries_[replica])));
  } else {
    write_summary(account, summaries_.front());
    messages_.push_back(transport::send_to(0, bytes_of(summaries_.front())));
  }
  exchange(*leaders_);
  stream_->synchronize();
  if (world_.rank() != 0) return {};
  for (size_t replica = 1; replica < summaries_.size(); ++replica)
    read_summary(summaries_[replica], accounts_[replica]);
  return accounts_;
}

}  // namespace penstock::accounting
