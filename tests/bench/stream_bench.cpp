// What it costs to queue work on a CPU stream, and to hand over between streams.
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include <benchmark/benchmark.h>

#include "kernels/cpu/device.h"
#include "kernels/cpu/stream.h"

namespace penstock::cpu {
namespace {

/// As much as a kernel captures: a few pointers and sizes.
struct KernelArguments {
  std::array<void*, 8> pointers{};
  std::array<int64_t, 8> sizes{};
};

/// The host's cost of a call, and the rate at which a stream gets through tasks that do nothing.
void enqueue(benchmark::State& state) {
  const auto device = make_cpu_device({});
  const auto stream = device->create_stream("compute", StreamUse::compute);
  CpuStream& cpu = CpuStream::of(*stream);
  KernelArguments arguments;
  for (auto _ : state) {
    cpu.enqueue("nothing", [arguments] { benchmark::DoNotOptimize(&arguments); });
  }
  stream->synchronize();
}
BENCHMARK(enqueue)->UseRealTime();

/// The host's cost alone: the worker is held while a queue's worth is put in.
void enqueue_behind_a_gate(benchmark::State& state) {
  const auto device = make_cpu_device({});
  const auto stream = device->create_stream("compute", StreamUse::compute);
  CpuStream& cpu = CpuStream::of(*stream);
  const KernelArguments arguments;
  constexpr uint64_t batch = CpuStream::queue_capacity - 1;
  for (auto _ : state) {
    state.PauseTiming();
    std::atomic<bool> open{false};
    cpu.enqueue("gate", [&open] { open.wait(false); });
    state.ResumeTiming();
    for (uint64_t i = 0; i < batch; ++i) {
      cpu.enqueue("nothing", [arguments] { benchmark::DoNotOptimize(&arguments); });
    }
    state.PauseTiming();
    open.store(true);
    open.notify_all();
    stream->synchronize();
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(batch));
}
BENCHMARK(enqueue_behind_a_gate)->UseRealTime();

/// From a call to the end of synchronize: the worker may have gone to sleep in between.
void enqueue_and_synchronize(benchmark::State& state) {
  const auto device = make_cpu_device({});
  const auto stream = device->create_stream("compute", StreamUse::compute);
  for (auto _ : state) {
    CpuStream::of(*stream).enqueue("nothing", [] {});
    stream->synchronize();
  }
}
BENCHMARK(enqueue_and_synchronize)->UseRealTime();

/// A token goes to another stream and back, queued far ahead; the time is that of one hand-over.
void event_hand_over(benchmark::State& state) {
  const auto device = make_cpu_device({});
  const auto first = device->create_stream("first", StreamUse::transfer);
  const auto second = device->create_stream("second", StreamUse::transfer);
  const auto there = device->create_event("there");
  const auto back = device->create_event("back");
  for (auto _ : state) {
    first->wait(*back);
    first->record(*there);
    second->wait(*there);
    second->record(*back);
  }
  first->synchronize();
  second->synchronize();
  state.SetItemsProcessed(2 * state.iterations());
}
BENCHMARK(event_hand_over)->UseRealTime();

/// As event_hand_over, by signals, as ranks of one process do it.
void signal_hand_over(benchmark::State& state) {
  const auto device = make_cpu_device({});
  const auto there = device->create_signal("there");
  const auto back = device->create_signal("back");
  const auto first = device->create_stream("first", StreamUse::transfer);
  const auto second = device->create_stream("second", StreamUse::transfer);
  uint64_t round = 0;
  for (auto _ : state) {
    first->wait(*back, round);
    ++round;
    first->signal(*there, round);
    second->wait(*there, round);
    second->signal(*back, round);
  }
  first->synchronize();
  second->synchronize();
  state.SetItemsProcessed(2 * state.iterations());
}
BENCHMARK(signal_hand_over)->UseRealTime();

}  // namespace
}  // namespace penstock::cpu

BENCHMARK_MAIN();
