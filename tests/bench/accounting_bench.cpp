// What always-on accounting costs, as shares of the step that it accounts for, in one run: the stamps of the
// executor, the record that a rank writes and sends, and what a pipeline's first rank makes of the records,
// which runs while the device works on the next step. Then the same work for large pipelines, beside the step
// that it would belong to if every action took one millisecond.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "kernels/cpu/device.h"
#include "kernels/transport/inproc/inproc_world.h"
#include "parallel/runtime/replay_engine.h"
#include "parallel/schedule/catalogue.h"
#include "parallel/schedule/simulate.h"
#include "trainer/accounting/accountant.h"
#include "trainer/accounting/median.h"
#include "trainer/accounting/record.h"
#include "trainer/accounting/record_gathering.h"

namespace penstock::accounting {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_of(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

schedule::Costs costs_of(const schedule::Schedule& schedule, double action) {
  schedule::Costs costs;
  for (int stage = 0; stage < schedule.blocks(); ++stage) {
    const double uneven = action * (1 + 0.1 * (stage % 3));
    costs.blocks.push_back({uneven, uneven, uneven});
  }
  return costs;
}

// Ranks that sleep instead of computing, so that the machine is free to show what accounting takes.
void measure_small(int ranks, int micro_batches, double action, int steps) {
  const schedule::Schedule schedule = schedule::generate("1f1b", {ranks, micro_batches});
  const schedule::Costs costs = costs_of(schedule, action);
  const schedule::Program program = lower(schedule, costs, {});
  const runtime::ReplayTimes times(program, costs);
  const auto sums = transport::make_inproc_worlds(ranks);
  transport::run_inproc(ranks, {}, [&](transport::World& world) {
    DeviceOptions options;
    options.rank = world.rank();
    const auto device = cpu::make_cpu_device(options);
    runtime::ReplayEngine engine(*device, world, *sums[static_cast<size_t>(world.rank())], program, times);
    std::vector<std::vector<int>> pipelines(1);
    for (int rank = 0; rank < ranks; ++rank) pipelines[0].push_back(rank);
    RecordGathering gathering(world, *device, pipelines, program);
    std::optional<Accountant> accountant;
    if (gathering.leads()) accountant.emplace(program);
    const auto stream = device->create_stream("stamps", StreamUse::transfer);
    std::vector<double> step_seconds;
    std::vector<double> record_seconds;
    std::vector<double> account_seconds;
    std::vector<double> stamp_seconds;
    for (int step = 0; step < steps; ++step) {
      step_seconds.push_back(seconds_of([&] {
        engine.start_step(static_cast<uint64_t>(step));
        if (step > 0) {
          account_seconds.push_back(seconds_of([&] {
            const auto all = gathering.receive();
            if (accountant) accountant->account(all, std::nullopt);
          }));
        }
        engine.finish_step();
      }));
      record_seconds.push_back(seconds_of([&] {
        take_stamps(engine.stamps(), 0, gathering.own().instructions);
        gathering.send();
      }));
      std::vector<double> stamps(3 * engine.stamps().size());
      stamp_seconds.push_back(seconds_of([&] {
        for (double& stamp : stamps) stream->stamp(&stamp);
        stream->synchronize();
      }));
    }
    gathering.receive();
    if (world.rank() != 0) return;
    const double step = median(step_seconds);
    fmt::print(
        "{} ranks, {} micro-batches, {:.1f} ms an action: step {:.1f} ms; stamps {:.3f} %, record {:.3f} % "
        "of it; account {:.3f} %, beside the next step\n",
        ranks, micro_batches, action * 1e3, step * 1e3, 100 * median(stamp_seconds) / step,
        100 * median(record_seconds) / step, 100 * median(account_seconds) / step);
  });
}

void measure_large(const char* name, int ranks, int micro_batches) {
  constexpr double action = 1e-3;
  const schedule::Schedule schedule = schedule::generate(name, {ranks, micro_batches});
  const schedule::Costs costs = costs_of(schedule, action);
  const schedule::Program program = lower(schedule, costs, {});
  const schedule::Timeline timeline = simulate(program, costs);
  std::vector<RankTimes> records;
  std::vector<std::vector<std::byte>> bytes;
  size_t sent = 0;
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    records.push_back(times_of(timeline, rank));
    records.back().recompute.resize(1);
    bytes.emplace_back(record_bytes(records.back().instructions.size(), 1));
    sent += bytes.back().size();
  }
  Accountant accountant(program);
  std::vector<double> write;
  std::vector<double> read;
  for (int repetition = 0; repetition < 7; ++repetition) {
    write.push_back(seconds_of([&] { write_record(records[1], bytes[1]); }));
    if (repetition == 0) {
      for (size_t rank = 0; rank < bytes.size(); ++rank) write_record(records[rank], bytes[rank]);
    }
    read.push_back(seconds_of([&] {
      for (size_t rank = 0; rank < bytes.size(); ++rank) read_record(bytes[rank], records[rank]);
      accountant.account(records, std::nullopt);
    }));
  }
  const double step = accountant.account(records, std::nullopt).seconds();
  fmt::print(
      "{}, {} ranks, {} micro-batches, 1 ms an action: step {:.2f} s; {:.0f} KiB a rank, {:.1f} MiB come "
      "together; "
      "a rank writes {:.3f} ms ({:.4f} %), the first rank accounts {:.1f} ms ({:.3f} %), beside the next "
      "step\n",
      name, ranks, micro_batches, step, static_cast<double>(bytes[1].size()) / 1024,
      static_cast<double>(sent) / (1 << 20), 1e3 * median(write), 100 * median(write) / step,
      1e3 * median(read), 100 * median(read) / step);
}

}  // namespace
}  // namespace penstock::accounting

int main() {
  using namespace penstock::accounting;
  measure_small(4, 8, 1e-3, 41);
  measure_small(4, 32, 2e-3, 15);
  measure_large("1f1b", 8, 64);
  measure_large("1f1b", 64, 512);
  measure_large("zb-h1", 64, 512);
  return 0;
}
