#include "tests/trainer/checkpoint/small_run.h"

#include <bit>
#include <cstring>

#include "kernels/device/tensor.h"

namespace penstock::checkpoint {
namespace {

constexpr int64_t first_half = 20;  // not a row of weight

// Any bits at all, NaNs included.
uint32_t mixed(int64_t step, uint32_t i) {
  uint32_t x = static_cast<uint32_t>(step) * 2654435761u + i * 40503u + 1;
  x ^= x >> 15;
  x *= 2246822519u;
  return x ^ (x >> 13);
}

template <class T>
bool same(const Checkpoint& checkpoint, const char* name, DType dtype, const std::vector<T>& expected) {
  std::vector<T> read(expected.size());
  checkpoint.read(name, dtype, 0, static_cast<int64_t>(expected.size()), read.data());
  return std::memcmp(read.data(), expected.data(), expected.size() * sizeof(T)) == 0;
}

}  // namespace

SmallRun::SmallRun(int64_t step) : step_(step), embedding_(15), weight_(42), steps_{step, -step}, norm_(1) {
  uint32_t i = 0;
  for (uint16_t& value : embedding_) value = static_cast<uint16_t>(mixed(step, i++));
  for (float& value : weight_) value = std::bit_cast<float>(mixed(step, i++));
  norm_[0] = std::bit_cast<float>(mixed(step, i));
}

std::vector<Source> SmallRun::sources(int rank) const {
  Source half;
  half.name = "layers.0.weight";
  half.shape = {6, 7};
  const auto view = [](const auto& values, DType dtype, Shape shape) {
    return Tensor(const_cast<void*>(static_cast<const void*>(values.data())), dtype, shape);
  };
  if (rank == 0) {
    half.count = first_half;
    half.data = weight_.data();
    return {whole("embedding.weight", view(embedding_, DType::bf16, {5, 3})), half};
  }
  half.offset = first_half;
  half.count = 42 - first_half;
  half.data = weight_.data() + first_half;
  return {half, whole("state.steps", view(steps_, DType::i64, {2})),
          whole("norm", view(norm_, DType::fp32, {}))};
}

Manifest SmallRun::manifest() const {
  Manifest manifest;
  manifest.step = step_;
  manifest.samples = static_cast<uint64_t>(step_) * 12;
  manifest.data_fingerprint = "f1";
  manifest.job = "[run]\nname = \"small\"\n";
  manifest.program = "test";
  manifest.state["loss_scale"] = 65536.5;
  manifest.state["spikes"] = {{"mean", 0.1}, {"count", 18446744073709551615u}};
  return manifest;
}

void SmallRun::save(const CheckpointWriter& writer) const {
  writer.begin(step_);
  const std::vector<ShardEntry> entries{writer.write(step_, 0, sources(0)),
                                        writer.write(step_, 1, sources(1))};
  writer.commit(manifest(), entries);
}

std::string SmallRun::difference(const Checkpoint& checkpoint) const {
  const Manifest& found = checkpoint.manifest();
  const Manifest expected = manifest();
  if (found.step != step_ || found.samples != expected.samples || found.state != expected.state ||
      found.job != expected.job || found.data_fingerprint != expected.data_fingerprint) {
    return "manifest of step " + std::to_string(found.step);
  }
  if (!same(checkpoint, "embedding.weight", DType::bf16, embedding_)) return "embedding.weight";
  if (!same(checkpoint, "layers.0.weight", DType::fp32, weight_)) return "layers.0.weight";
  if (!same(checkpoint, "state.steps", DType::i64, steps_)) return "state.steps";
  if (!same(checkpoint, "norm", DType::fp32, norm_)) return "norm";
  return "";
}

}  // namespace penstock::checkpoint
