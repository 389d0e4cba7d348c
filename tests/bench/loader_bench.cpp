// What the loader gives against what training consumes, in one run: tokens a second of micro-batches read as
// the trainer's host thread reads them (two weighted token files in the page cache, shuffled, document_mask),
// and of whole optimizer steps of a model with 6 layers, 384 wide, vocabulary 4096, fp32, two threads.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "data/token_writer.h"
#include "kernels/transport/inproc/inproc_world.h"
#include "parallel/runtime/pipeline_engine.h"
#include "trainer/backend.h"
#include "trainer/job/read_job.h"
#include "trainer/step_batches.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int32_t vocabulary = 4096;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "penstock-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// Documents of 1 to 1000 tokens.
void write_tokens(const std::string& prefix, size_t count, uint32_t seed) {
  data::TokenWriter writer(prefix, vocabulary, "");
  std::mt19937 random(seed);
  std::vector<int32_t> document;
  for (size_t written = 0; written < count; written += document.size()) {
    document.resize(1 + random() % 1000);
    for (int32_t& token : document) token = static_cast<int32_t>(random() % vocabulary);
    writer.add(document);
    writer.end_document();
  }
  writer.finish();
}

Job small_model(const Folder& folder) {
  return parse_job(fmt::format(R"(
[run]
name = "bench"
steps = 1000000
[model]
family = "gpt2"
layers = 6
hidden_size = 384
heads = 6
sequence_length = 256
vocab_size = {}
[data]
train = [{{path = "{}", weight = 0.7}}, {{path = "{}", weight = 0.3}}]
document_mask = true
[batch]
global = 4
micro = 4
[parallel]
threads = 2
[learning_rate]
max = 1e-4
)",
                               vocabulary, folder / "a", folder / "b"),
                   "bench", {});
}

double loader_rate(const Job& job, StepBatches& batches) {
  const int64_t tokens_a_step = job.batch.global * job.model.sequence_length;
  const auto start = Clock::now();
  int64_t step = 0;
  while (seconds_since(start) < 2) batches.of(step++);
  return static_cast<double>(step * tokens_a_step) / seconds_since(start);
}

double training_rate(const Job& job, Backend& backend, StepBatches& batches, int steps) {
  const int64_t tokens_a_step = job.batch.global * job.model.sequence_length;
  std::vector<double> times;
  transport::run_inproc(1, {}, [&](transport::World& world) {
    runtime::PipelineEngine engine(*backend.device, backend.math, world,
                                   runtime::plan_pipeline(pipeline_request(job)));
    engine.rank().initialise(engine.stream());
    for (int step = 0; step < steps; ++step) {
      BatchSet& set = batches.of(step);
      const int64_t tokens = set.target_tokens(set.bands().size());
      const auto begin = Clock::now();
      engine.start_step({static_cast<uint64_t>(step), 1e-4, tokens}, set.bands());
      engine.finish_step();
      if (step > 0) times.push_back(seconds_since(begin));
    }
  });
  std::sort(times.begin(), times.end());
  return static_cast<double>(tokens_a_step) / times[times.size() / 2];
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  using namespace penstock;
  const int steps = argc > 1 ? std::atoi(argv[1]) : 20;
  const Folder folder;
  write_tokens(folder / "a", 20'000'000, 1);
  write_tokens(folder / "b", 10'000'000, 2);
  const Job job = small_model(folder);
  Backend backend = make_backend(job, 0);
  Corpus corpus(job, nullptr, true);
  StepBatches batches(job, corpus, 0, *backend.device);
  const double before = loader_rate(job, batches);
  const double training = training_rate(job, backend, batches, std::max(steps, 2));
  const double loader = std::min(before, loader_rate(job, batches));
  fmt::print("loader {:.1f} M tokens/s, training {:.0f} tokens/s: {:.0f} times as much\n", loader / 1e6,
             training, loader / training);
  return 0;
}
