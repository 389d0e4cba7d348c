// Contract C2: what a checkpoint holds is all that a run goes on from, and none of it is idle. Whatever entry
// is zeroed, the run ends otherwise.
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/device/dtype.h"
#include "tests/trainer/tiny_training.h"
#include "trainer/checkpoint/checkpoint_diff.h"
#include "trainer/checkpoint/checkpoint_error.h"
#include "trainer/checkpoint/checkpoint_writer.h"

namespace penstock {
namespace {

using checkpoint::Checkpoint;
using checkpoint::GlobalTensor;
using checkpoint::Manifest;

struct SavedState : TrainingTest {
  std::vector<std::string> settings{"numerics.on_spike=warn", "model.layers=1", "batch.global=2"};

  Job until(const std::string& name, int64_t steps) const {
    std::vector<std::string> all = settings;
    all.push_back("run.steps=" + std::to_string(steps));
    return job(name, all);
  }

  // A run that stands where `from` does, but for what `change` does to tensors (by name, as bytes) and
  // manifest.
  void stand(const std::string& name, const Checkpoint& from,
             const std::function<void(const std::string&, std::vector<std::byte>&)>& change_tensor,
             const std::function<void(Manifest&)>& change) const {
    const std::string checkpoints = (run(name) / "checkpoints").string();
    const checkpoint::CheckpointWriter writer(checkpoints, checkpoint::claim_attempt(checkpoints).attempt);
    std::vector<std::vector<std::byte>> values;
    std::vector<checkpoint::Source> sources;
    for (const GlobalTensor& tensor : from.manifest().tensors) {
      const int64_t elements = tensor.shape.elements();
      std::vector<std::byte>& bytes =
          values.emplace_back(static_cast<size_t>(elements) * size_of(tensor.dtype));
      from.read(tensor.name, tensor.dtype, 0, elements, bytes.data());
      change_tensor(tensor.name, bytes);
      checkpoint::Source source;
      static_cast<checkpoint::TensorDescription&>(source) = tensor;
      source.count = elements;
      source.data = bytes.data();
      sources.push_back(source);
    }
    Manifest manifest = from.manifest();
    change(manifest);
    writer.begin(manifest.step);
    writer.commit(manifest, {writer.write(manifest.step, 0, sources)});
  }
};

constexpr auto leave_tensors = [](const std::string&, std::vector<std::byte>&) {};
constexpr auto leave_manifest = [](Manifest&) {};

TEST_F(SavedState, EveryEntryMatters) {
  ASSERT_EQ(train(until("straight", 4), {}), ExitCode::finished);
  ASSERT_EQ(train(until("half", 3), {}), ExitCode::finished);
  const Checkpoint half = open("half", 3);
  const Checkpoint end = open("straight", 4);

  stand("same", half, leave_tensors, leave_manifest);
  ASSERT_EQ(train(until("same", 4), {}), ExitCode::finished);
  EXPECT_TRUE(compare(end, open("same", 4)).identical());

  size_t zeroed = 0;
  for (const GlobalTensor& tensor : half.manifest().tensors) {
    std::vector<std::byte> before;
    stand(
        "zeroed", half,
        [&](const std::string& name, std::vector<std::byte>& bytes) {
          if (name != tensor.name) return;
          before = bytes;
          std::fill(bytes.begin(), bytes.end(), std::byte{0});
          ASSERT_NE(before, bytes) << name << " is zero anyway: train longer";
        },
        leave_manifest);
    ASSERT_EQ(train(until("zeroed", 4), {}), ExitCode::finished);
    EXPECT_FALSE(compare(end, open("zeroed", 4)).values.empty()) << tensor.name << " does nothing";
    fs::remove_all(run("zeroed"));
    ++zeroed;
  }
  EXPECT_EQ(zeroed, half.manifest().tensors.size());

  // What the manifest says, but for how the run is arranged: no state besides this one.
  for (const auto& [name, value] : half.manifest().state) {
    if (checkpoint::is_of_arrangement(name)) continue;
    stand("zeroed", half, leave_tensors,
          [key = name](Manifest& manifest) { manifest.state[key] = nlohmann::json::array(); });
    ASSERT_EQ(train(until("zeroed", 4), {}), ExitCode::finished);
    EXPECT_NE(end.manifest().state.at(name), open("zeroed", 4).manifest().state.at(name)) << name;
    fs::remove_all(run("zeroed"));
  }
  stand("zeroed", half, leave_tensors, [](Manifest& manifest) { manifest.step = 2; });
  EXPECT_THROW(train(until("zeroed", 4), {}), checkpoint::CheckpointError) << "2 steps are not these samples";
  fs::remove_all(run("zeroed"));
  stand("zeroed", half, leave_tensors, [](Manifest& manifest) { manifest.samples = 0; });
  EXPECT_THROW(train(until("zeroed", 4), {}), checkpoint::CheckpointError);
}

}  // namespace
}  // namespace penstock
