// Nothing is allocated inside a step, on the device or on the host: this binary's operator new counts.
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

#include <gtest/gtest.h>

#include "tests/model/pipeline.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<int64_t> allocations{0};

void* counted(std::size_t bytes) {
  if (counting) ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) {
  return counted(bytes);
}
void* operator new[](std::size_t bytes) {
  return counted(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace penstock::testing {
namespace {

TEST(Step, AllocatesNothingAfterTheFirst) {
  for (const ModelSection& family : {small_gpt2(), small_llama()}) {
    PipelineOptions options;
    options.model = family;
    options.model.dropout = 0.1;
    options.recompute = RecomputeMode::selective;
    options.threads = 2;
    Pipeline pipeline(options);
    model::RankModel& rank = pipeline.model();
    HostBatch batch = random_batch(options.model, options.micro_batch, 0);
    const model::SideBand band = batch.band(false);
    const auto step = [&](uint64_t number) {
      Stream& stream = pipeline.stream();
      rank.optimizer().begin(stream, {number, 1e-3, 1});
      rank.zero_losses(stream);
      rank.stage(0).forward(stream, {}, 0, band, model::Pass::training);
      rank.stage(0).backward_input(stream, {}, 0);
      rank.stage(0).backward_weight(stream, {});
      rank.optimizer().finish(stream);
      return rank.read(stream).loss_sum;
    };
    const double first = step(0);
    counting = true;
    const double second = step(1);
    counting = false;
    EXPECT_NE(first, second);
    EXPECT_EQ(allocations.exchange(0), 0);
  }
}

}  // namespace
}  // namespace penstock::testing
