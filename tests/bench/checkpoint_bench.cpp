// Checkpoints beside the disk they lie on: the rate of a save, hashed, synced and committed, as a share of
// plain writes of as many bytes with one fsync (what `dd conv=fsync` does), in turns; and what checking all
// hashes adds to loading, from a cold and from a warm cache, in turns with loading alone.
//   bench_checkpoint [FOLDER]   the folder, default ".", is on the disk to be measured
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "data/data_error.h"
#include "trainer/checkpoint/checkpoint_reader.h"
#include "trainer/checkpoint/checkpoint_writer.h"

namespace penstock {
namespace {

using checkpoint::Checkpoint;
using checkpoint::CheckpointWriter;
using Clock = std::chrono::steady_clock;

constexpr int turns = 7;
constexpr int tensors = 120;
constexpr int64_t elements = 512 * 1024;  // of a tensor in fp32: 252 MB in all

template <class Work>
double seconds_of(Work work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void checked(bool fine, const std::string& path, const char* what) {
  if (!fine) throw data::system_error(path, what, errno);
}

struct State {
  std::vector<std::vector<float>> values;
  std::vector<checkpoint::Source> sources;

  State() : values(tensors) {
    uint32_t random = 1;
    for (int i = 0; i < tensors; ++i) {
      auto& tensor = values[static_cast<size_t>(i)];
      tensor.resize(elements);
      for (float& value : tensor) {
        random = random * 1664525 + 1013904223;
        value = static_cast<float>(random >> 8);
      }
      checkpoint::Source source;
      source.name = fmt::format("tensor{}", i);
      source.dtype = DType::fp32;
      source.shape = Shape{elements};
      source.count = elements;
      source.data = tensor.data();
      sources.push_back(source);
    }
  }
};

void write_plainly(const State& state, const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  checked(fd >= 0, path, "create it");
  for (const auto& tensor : state.values) {
    const size_t bytes = tensor.size() * sizeof(float);
    checked(::write(fd, tensor.data(), bytes) == static_cast<ssize_t>(bytes), path, "write");
  }
  checked(::fsync(fd) == 0, path, "fsync");
  checked(::close(fd) == 0, path, "close it");
  std::filesystem::remove(path);
}

void save(const CheckpointWriter& writer, const State& state, int64_t step) {
  writer.begin(step);
  const std::vector<checkpoint::ShardEntry> entries = {writer.write(step, 0, state.sources)};
  checkpoint::Manifest manifest;
  manifest.step = step;
  writer.commit(manifest, entries);
}

// Needs root: says so where the caches cannot be emptied, and all reading is then warm.
bool empty_caches() {
  ::sync();
  std::ofstream file("/proc/sys/vm/drop_caches");
  file << "3" << std::flush;
  return file.good();
}

double load(const std::string& path, checkpoint::Depth depth, State& into) {
  return seconds_of([&] {
    const Checkpoint saved = Checkpoint::open(path, depth);
    for (int i = 0; i < tensors; ++i)
      saved.read(fmt::format("tensor{}", i), DType::fp32, 0, elements,
                 into.values[static_cast<size_t>(i)].data());
  });
}

void run(const std::string& at) {
  const std::string folder = fmt::format("{}/bench-checkpoint.{}", at, ::getpid());
  State state;
  const double megabytes = 1e-6 * tensors * elements * sizeof(float);
  const CheckpointWriter writer(folder, checkpoint::claim_attempt(folder).attempt);
  std::vector<double> plain;
  std::vector<double> saved;
  for (int64_t turn = 1; turn <= turns; ++turn) {
    plain.push_back(seconds_of([&] { write_plainly(state, folder + "/plain"); }));
    saved.push_back(seconds_of([&] { save(writer, state, turn); }));
    writer.prune(turn, 1, 0);
  }
  std::printf("a save of %.0f MB: %.0f MB/s, plain writes and fsync %.0f MB/s: %.0f %% (medians of %d)\n",
              megabytes, megabytes / median(saved), megabytes / median(plain),
              100 * median(plain) / median(saved), turns);
  const std::string path = checkpoint::newest_first(folder).front();
  for (const bool cold : {true, false}) {
    std::vector<double> unchecked;
    std::vector<double> all;
    bool emptied = true;
    for (int turn = 0; turn < turns; ++turn) {
      if (cold) emptied = empty_caches() && emptied;
      unchecked.push_back(load(path, checkpoint::Depth::quick, state));
      if (cold) emptied = empty_caches() && emptied;
      all.push_back(load(path, checkpoint::Depth::full, state));
    }
    std::printf("loading from a %s cache%s: %.1f ms, checked %.1f ms: %+.0f %%\n", cold ? "cold" : "warm",
                emptied ? "" : " (which only root can empty: it was warm)", 1e3 * median(unchecked),
                1e3 * median(all), 100 * (median(all) / median(unchecked) - 1));
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  try {
    penstock::run(argc > 1 ? argv[1] : ".");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
