// Text that is generated token by token, from keys and values that were kept, against the whole forward of
// the text.
#include "parallel/runtime/cached_engine.h"

#include <cmath>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kernels/cpu/device.h"
#include "kernels/cpu/make_math.h"
#include "kernels/cpu/processor.h"
#include "kernels/device/error.h"
#include "tests/allocation_count/allocation_count.h"
#include "tests/parallel/runtime/ranks.h"

namespace penstock::testing {
namespace {

constexpr int64_t length = 300;
constexpr uint64_t seed = 1;

ModelSection long_gpt2() {
  ModelSection model = tiny_gpt2();
  model.sequence_length = length;
  model.init_std = 0.2;  // attention and logits that tell tokens apart
  return model;
}

ModelSection long_llama() {
  ModelSection model = tiny_llama();
  model.sequence_length = length;
  model.init_std = 0.2;
  return model;
}

struct ModelCase {
  std::string name;
  ModelSection model;
  DType dtype = DType::fp32;
};

// Learned positions, tied and not; rotary ones, scaled either way; grouped heads; norms of heads; biases;
// types.
std::vector<ModelCase> model_cases() {
  std::vector<ModelCase> cases{{"gpt2", long_gpt2()}, {"llama", long_llama()}};
  ModelCase untied{"gpt2_untied", long_gpt2()};
  untied.model.tie_embeddings = false;
  untied.model.qkv_bias = false;
  cases.push_back(untied);
  ModelCase scaled{"llama_scaled", long_llama()};
  scaled.model.rope_scaling = RopeScaling{RopeScalingType::llama3, 4.0, 1.0, 4.0, 64};
  scaled.model.tie_embeddings = true;
  scaled.model.qk_norm = true;
  scaled.model.qkv_bias = true;
  scaled.model.kv_heads = 1;
  cases.push_back(scaled);
  ModelCase linear{"llama_linear", long_llama()};
  linear.model.rope_scaling = RopeScaling{RopeScalingType::linear, 2.0, 1.0, 4.0, 64};
  linear.model.qk_norm = false;
  cases.push_back(linear);
  ModelCase half{"gpt2_fp16", long_gpt2(), DType::fp16};
  cases.push_back(half);
  if (cpu::processor_has_bf16()) {
    cases.push_back({"gpt2_bf16", long_gpt2(), DType::bf16});
    cases.push_back({"llama_bf16", long_llama(), DType::bf16});
  }
  return cases;
}

std::vector<int32_t> some_tokens(const ModelSection& model, size_t count, unsigned from) {
  std::mt19937 random(from);
  std::vector<int32_t> tokens;
  for (size_t at = 0; at < count; ++at)
    tokens.push_back(static_cast<int32_t>(random() % static_cast<unsigned>(model.vocab_size)));
  return tokens;
}

runtime::PipelineRequest request_of(const ModelCase& test, int pipeline = 1,
                                    const std::string& schedule = "1f1b", int chunks = 1) {
  runtime::PipelineRequest request = make_job(test.model, pipeline, schedule, chunks, 1).request;
  request.common.compute = test.dtype;
  request.common.wire.reset();
  request.common.micro_batch = 1;
  request.common.seed = seed;
  request.forward_only = true;
  return request;
}

using Body = std::function<void(runtime::CachedEngine&, transport::World&)>;

void run_cached(const runtime::PipelineRequest& request, const model::CacheConfig& cache, const Body& body,
                int threads = 1) {
  transport::run_inproc(static_cast<int>(request.parallel.pipeline), {}, [&](transport::World& world) {
    const transport::AbortOnUnwind abort(world);
    DeviceOptions options;
    options.rank = world.rank();
    options.threads = threads;
    const auto device = cpu::make_cpu_device(options);
    math::Math math = cpu::make_math(*device);
    runtime::CachedEngine engine(*device, math, world, runtime::plan_pipeline(request), cache);
    engine.rank().parameters().initialise(engine.stream(), math, seed);
    engine.rank().clear_state(engine.stream());
    EXPECT_TRUE(engine.rank().memory().unclaimed().empty());
    body(engine, world);
  });
}

std::vector<float> copy_of(std::span<const float> values) {
  return {values.begin(), values.end()};
}

// Of the whole forward, after each of the tokens.
std::vector<std::vector<float>> full_logits(const ModelCase& test, const std::vector<int32_t>& tokens,
                                            const std::vector<size_t>& rows) {
  Job job = make_job(test.model, 1, "1f1b", 1, 1);
  job.request = request_of(test);
  job.request.logits = true;
  std::vector<std::vector<float>> all;
  run_ranks(job, [&](runtime::PipelineEngine& engine, transport::World&) {
    HostBatch batch = random_batch(test.model, 1, 0);
    std::copy(tokens.begin(), tokens.end(), batch.tokens.begin());
    for (const size_t row : rows)
      all.push_back(copy_of(engine.logits(batch.band(), static_cast<int64_t>(row))));
  });
  return all;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += std::pow(a[i] - b[i], 2);
    norm += std::pow(b[i], 2);
  }
  return std::sqrt(difference / norm);
}

class CachedModels : public ::testing::TestWithParam<ModelCase> {};

// Texts of one token, of whole pieces and not, of all positions; each goes on for some tokens.
TEST_P(CachedModels, LogitsAreThoseOfTheWholeForward) {
  const ModelCase& test = GetParam();
  const std::vector<int32_t> tokens = some_tokens(test.model, length, 3);
  const std::vector<size_t> lengths{1, 2, 16, 17, 32, 33, 63, 64, 65, 99, 256, 257, 290, 300};
  std::vector<size_t> rows;
  for (const size_t count : lengths) {
    for (size_t more = 0; more < 3 && count + more <= tokens.size(); ++more) rows.push_back(count + more - 1);
  }
  const auto expected = full_logits(test, tokens, rows);
  const double bound = test.dtype == DType::fp32 ? 1e-5 : test.dtype == DType::fp16 ? 4e-3 : 3e-2;
  run_cached(request_of(test), {2, length}, [&](runtime::CachedEngine& engine, transport::World&) {
    size_t at = 0;
    for (const size_t count : lengths) {
      engine.read(1, std::span(tokens).first(count));
      EXPECT_LE(distance(copy_of(engine.logits(1)), expected[at++]), bound) << count << " tokens";
      for (size_t more = 1; more < 3 && count + more <= tokens.size(); ++more) {
        engine.advance(std::vector<int32_t>{-1, tokens[count + more - 1]});
        EXPECT_LE(distance(copy_of(engine.logits(1)), expected[at++]), bound)
            << count << " + " << more << " tokens";
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Kinds, CachedModels, ::testing::ValuesIn(model_cases()),
                         [](const auto& made) { return made.param.name; });

// Three texts of unequal length that go on together: logits of all after each token.
std::vector<float> scenario(const runtime::PipelineRequest& request, const model::CacheConfig& cache,
                            const std::vector<int64_t>& slots, int threads = 1) {
  std::vector<float> found;
  std::mutex mutex;
  const std::vector<size_t> lengths{70, 3, 290};
  run_cached(
      request, cache,
      [&](runtime::CachedEngine& engine, transport::World&) {
        const auto keep = [&](int64_t slot) {
          if (!engine.holds_head()) return;
          const std::lock_guard lock(mutex);
          const auto logits = engine.logits(slot);
          found.insert(found.end(), logits.begin(), logits.end());
        };
        std::vector<std::vector<int32_t>> texts;
        for (size_t text = 0; text < slots.size(); ++text) {
          texts.push_back(some_tokens(request.common.model, lengths[text] + 4, static_cast<unsigned>(text)));
          engine.read(slots[text], std::span(texts.back()).first(lengths[text]));
          keep(slots[text]);
        }
        for (size_t more = 0; more < 4; ++more) {
          std::vector<int32_t> next(static_cast<size_t>(engine.slots()), -1);
          for (size_t text = 0; text < slots.size(); ++text)
            next[static_cast<size_t>(slots[text])] = texts[text][lengths[text] + more];
          engine.advance(next);
          for (const int64_t slot : slots) keep(slot);
          std::vector<int32_t> told(static_cast<size_t>(engine.slots()), engine.holds_head() ? 5 : 0);
          engine.tell(told);
          EXPECT_EQ(told, std::vector<int32_t>(told.size(), 5));
        }
      },
      threads);
  return found;
}

TEST(CachedEngine, EveryLayoutHasTheSameBits) {
  for (const ModelCase& test : {ModelCase{"gpt2", long_gpt2()}, ModelCase{"llama", long_llama()}}) {
    const std::vector<float> expected = scenario(request_of(test), {3, length}, {0, 1, 2});
    ASSERT_FALSE(expected.empty());
    EXPECT_EQ(scenario(request_of(test), {3, length}, {0, 1, 2}, 3), expected) << "three threads";
    for (const auto& [pipeline, schedule, chunks] :
         {std::tuple(2, "1f1b", 1), std::tuple(3, "gpipe", 1), std::tuple(2, "zbv", 2),
          std::tuple(2, "interleaved", 2), std::tuple(2, "dualpipe", 1), std::tuple(2, "2bw", 1),
          std::tuple(2, "dualpipev", 2)}) {
      EXPECT_EQ(scenario(request_of(test, pipeline, schedule, chunks), {3, length}, {0, 1, 2}), expected)
          << test.name << ", " << schedule << " on " << pipeline;
    }
  }
}

TEST(CachedEngine, ATextDoesNotDependOnItsNeighbours) {
  for (const DType dtype : {DType::fp32, DType::fp16}) {
    const ModelCase test{"llama", long_llama(), dtype};
    const std::vector<float> together = scenario(request_of(test), {3, length}, {0, 1, 2});
    // Other slots, more of them, fewer positions at once than a pass has rows.
    EXPECT_EQ(scenario(request_of(test), {70, length}, {69, 3, 0}), together);
    const std::vector<float> alone = scenario(request_of(test), {1, 80}, {0});
    const auto vocabulary = static_cast<size_t>(test.model.vocab_size);
    for (size_t after = 0; after < 5; ++after) {
      const std::span<const float> mine = std::span(alone).subspan(after * vocabulary, vocabulary);
      const size_t place = after == 0 ? 0 : 3 * after;
      EXPECT_EQ(copy_of(mine), copy_of(std::span(together).subspan(place * vocabulary, vocabulary))) << after;
    }
  }
}

// Another wire is rounded where stages meet, on one rank as on two.
TEST(CachedEngine, RoundsToTheWireWhereStagesMeet) {
  runtime::PipelineRequest two = request_of({"gpt2", long_gpt2()}, 2);
  two.common.wire = DType::fp16;
  const std::vector<float> found = scenario(two, {3, length}, {0, 1, 2});
  const std::vector<float> exact = scenario(request_of({"gpt2", long_gpt2()}), {3, length}, {0, 1, 2});
  EXPECT_NE(found, exact);
  EXPECT_LE(distance(found, exact), 4e-3);
}

TEST(CachedEngine, ATokenMoreAllocatesNothing) {
  run_cached(request_of({"gpt2", long_gpt2()}, 2), {2, 40},
             [](runtime::CachedEngine& engine, transport::World&) {
               engine.read(0, std::vector<int32_t>{1, 2, 3});
               const std::vector<int32_t> next{4, -1};
               std::vector<int32_t> told{6, 7};
               engine.advance(next);
               engine.tell(told);
               const int64_t before = allocations_of_this_thread();
               for (int more = 0; more < 5; ++more) {
                 engine.advance(next);
                 engine.tell(told);
               }
               EXPECT_EQ(allocations_of_this_thread(), before);
             });
}

TEST(CachedEngine, KeepsWeightsAndCacheAlone) {
  const ModelCase test{"llama", long_llama(), DType::fp16};
  const model::CacheConfig cache{3, 100};
  run_cached(request_of(test), cache, [&](runtime::CachedEngine& engine, transport::World&) {
    const model::MemoryPlan& plan = engine.rank().memory().plan();
    EXPECT_EQ(plan.bytes(ArenaTag::gradients), 0u);
    EXPECT_EQ(plan.bytes(ArenaTag::optimizer), 0u);
    size_t kept = 0;
    size_t weights = 0;
    for (const model::PlannedAllocation& piece : plan.allocations) {
      if (piece.name.ends_with(".keys") || piece.name.ends_with(".values")) kept += piece.bytes;
      if (piece.name.ends_with(".master")) weights += piece.bytes;
    }
    const ModelSection& model = test.model;
    EXPECT_EQ(kept, static_cast<size_t>(2 * model.layers) *
                        aligned(static_cast<size_t>(3 * 100 * model.kv_heads * model.head_dim * 2)));
    // Norms alone are read in fp32.
    EXPECT_LT(weights, size_t{1} << 14);
  });
}

TEST(CachedEngine, RefusesWhatDoesNotFit) {
  run_cached(request_of({"gpt2", long_gpt2()}), {2, 4}, [](runtime::CachedEngine& engine, transport::World&) {
    EXPECT_THROW(engine.read(0, std::vector<int32_t>{}), UsageError);
    EXPECT_THROW(engine.read(0, std::vector<int32_t>{1, 2, 3, 4, 5}), UsageError);
    EXPECT_THROW(engine.read(2, std::vector<int32_t>{1}), UsageError);
    EXPECT_THROW(engine.advance(std::vector<int32_t>{1}), UsageError);
    engine.read(0, std::vector<int32_t>{1, 2, 3, 4});
    EXPECT_THROW(engine.advance(std::vector<int32_t>{1, -1}), UsageError);
  });
}

}  // namespace
}  // namespace penstock::testing
