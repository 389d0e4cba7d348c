// Contract C2: what a checkpoint holds is all that a run goes on from, and none of it is idle. Whatever entry
// is zeroed, the run ends otherwise.
#include <cstddef>
#include <functional>
#include <map>
#include <set>
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

TrainOptions accept() {
  TrainOptions options;
  options.accept_changes = true;
  return options;
}

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

  stand("zeroed", half, leave_tensors, [](Manifest& manifest) { manifest.step = 2; });
  EXPECT_THROW(train(until("zeroed", 4), {}), checkpoint::CheckpointError) << "2 steps are not these samples";
  fs::remove_all(run("zeroed"));
  stand("zeroed", half, leave_tensors, [](Manifest& manifest) { manifest.samples = 0; });
  EXPECT_THROW(train(until("zeroed", 4), {}), checkpoint::CheckpointError);
}

// What the manifest says, but for how the run is arranged. In fp16, as a scale belongs to it, and with
// samples that are passed over, as after a rollback; nothing that a run keeps may be missing here.
TEST_F(SavedState, EveryEntryOfTheManifestMatters) {
  settings.emplace_back("precision.compute=fp16");
  settings.emplace_back("loss_scaling.initial=64");
  ASSERT_EQ(train(until("half", 3), {}), ExitCode::finished);
  const Checkpoint half = open("half", 3);
  const nlohmann::json passed_over = nlohmann::json::array({{6, 8}});
  const std::map<std::string, nlohmann::json> neutral{{"spike_losses", nlohmann::json::array()},
                                                      {"loss_scale", nullptr},
                                                      {"skips_in_a_row", 0},
                                                      {"skipped_samples", nlohmann::json::array()}};
  std::set<std::string> known;
  std::set<std::string> kept;
  for (const auto& [name, value] : neutral) known.insert(name);
  for (const auto& [name, value] : half.manifest().state) {
    if (!checkpoint::is_of_arrangement(name)) kept.insert(name);
  }
  ASSERT_EQ(kept, known) << "an entry without a test that it matters";

  const auto go_on = [&](const std::string& without) {
    stand("run", half, leave_tensors, [&](Manifest& manifest) {
      manifest.state["skipped_samples"] = passed_over;
      if (without == "loss_scale") {
        manifest.state.erase(without);
      } else if (!without.empty()) {
        manifest.state[without] = neutral.at(without);
      }
    });
    std::vector<std::string> all = settings;
    all.emplace_back("run.steps=4");
    all.emplace_back("loss_scaling.initial=128");
    EXPECT_EQ(train(job("run", all), accept()), ExitCode::finished);
    const nlohmann::json line = metrics("run").back();
    const std::string end = open("run", 4).manifest().state.at("spike_losses").dump() +
                            open("run", 4).manifest().state.at("loss_scale").dump() + line["loss"].dump();
    fs::remove_all(run("run"));
    return end;
  };
  const std::string straight = go_on("");
  EXPECT_EQ(straight, go_on(""));
  for (const char* each : {"spike_losses", "loss_scale", "skipped_samples"})
    EXPECT_NE(straight, go_on(each)) << each << " does nothing";
}

// How many steps were skipped in a row only matters to a run that goes on to skip them.
TEST_F(SavedState, SkippedStepsAreCountedOn) {
  settings = {"learning_rate.max=1e30", "optimizer.clip_norm=0", "learning_rate.warmup_steps=0",
              "numerics.on_nonfinite=skip"};
  ASSERT_EQ(train(until("half", 4), {}), ExitCode::finished);
  const Checkpoint half = open("half", 4);
  const auto skipped = half.manifest().state.at("skips_in_a_row").get<int64_t>();
  ASSERT_GT(skipped, 0);
  settings.push_back("numerics.max_in_a_row=" + std::to_string(skipped));
  for (const int64_t stands : {skipped, int64_t{0}}) {
    stand("run", half, leave_tensors, [&](Manifest& manifest) { manifest.state["skips_in_a_row"] = stands; });
    EXPECT_EQ(train(until("run", 5), accept()), stands > 0 ? ExitCode::numerics : ExitCode::finished);
    fs::remove_all(run("run"));
  }
}

}  // namespace
}  // namespace penstock
