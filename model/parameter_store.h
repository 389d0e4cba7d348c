#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/device/stream.h"
#include "kernels/math/math.h"
#include "model/parameter.h"
#include "model/planned_memory.h"
#include "model/rank_config.h"

namespace penstock::model {

/// A tensor that may be there twice: kernels take the one that the store has selected when they are enqueued.
class SelectedTensor {
 public:
  SelectedTensor() = default;
  SelectedTensor(const Tensor& first, const Tensor& second, const size_t* selected)
      : sets_{first, second}, selected_(selected) {}
  explicit operator bool() const { return static_cast<bool>(sets_[0]); }
  // NOLINTNEXTLINE(google-explicit-constructor): it stands where a kernel takes a tensor
  operator const Tensor&() const { return sets_[selected_ == nullptr ? 0 : *selected_]; }

 private:
  std::array<Tensor, 2> sets_;
  const size_t* selected_ = nullptr;
};
/// Where kernels add a parameter's gradient, and what they read of it.
using Accumulator = SelectedTensor;
using Weights = SelectedTensor;

/// A parameter and its memory, of spec.shape but for what a sharded optimizer's member has its own share of.
struct Parameter {
  ParameterSpec spec;
  Slice owned;  ///< what the rank's optimizer updates: all of it, unless sharded; possibly nothing
  int unit = 0;
  int copy = 0;       ///< of the weights (StageConfig::copy)
  int64_t index = 0;  ///< in model_parameters(): the place of its squares in the global norm
  Tensor master;      ///< fp32; what is owned, (owned) flat, where sharded and kernels read a copy
  Tensor compute;     ///< what kernels read: a bf16 copy, or the master
  Tensor before;      ///< what they read until the last update; absent: there is one version
  Tensor gradient;    ///< fp32, of set 0: what the optimizer reads
  Tensor gradient2;   ///< fp32, of set 1; absent: there is one set
  Tensor moment1;     ///< fp32 (owned), flat
  Tensor moment2;     ///< fp32 (owned), flat
  bool shared =
      false;  ///< the head's share of a tied weight whose master, copy and moments are the embedding's
  bool whole_master = true;

  /// What is owned, (owned) flat: of the master, the gradient, and of what kernels read.
  Tensor owned_master() const { return whole_master ? owned_of(master) : master; }
  Tensor owned_gradient(bool second = false) const { return owned_of(second ? gradient2 : gradient); }
  Tensor owned_compute() const { return owned_of(compute); }
  /// Where there are two versions.
  Tensor owned_before() const { return owned_of(before); }
  bool has_copy() const { return !whole_master || compute.data != master.data; }

 private:
  Tensor owned_of(const Tensor& whole) const {
    return whole.view(Shape{whole.elements()}).rows(owned.begin, owned.elements());
  }
};

/// A tensor of a parameter, and what it is called after the parameter's name.
struct NamedState {
  std::string_view ending;
  Tensor tensor;
};
/// All of a parameter that lasts from one step to the next: master and moments, fp32, of what the rank owns
/// of it. What a checkpoint holds and what moves with a unit. (The compute copy follows from the master;
/// gradients begin at zero.) Of two versions of the weights the earlier one lasts too: checkpoints hold it
/// beside these, and units of such a run do not move.
inline constexpr size_t lasting_states = 3;
inline constexpr std::array<std::string_view, lasting_states> lasting_endings{"", ".moment1", ".moment2"};
inline std::array<NamedState, lasting_states> lasting_state(const Parameter& parameter) {
  return {{{lasting_endings[0], parameter.owned_master()},
           {lasting_endings[1], parameter.moment1},
           {lasting_endings[2], parameter.moment2}}};
}

/// The parameters of a rank's units, one flat buffer a unit in the arena of each tag.
class ParameterStore {
 public:
  ParameterStore(PlannedMemory& memory, const RankConfig& config);
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;

  /// In model order. A tied weight stands twice: as the embedding's and as the head's.
  const std::vector<Parameter>& parameters() const { return parameters_; }
  /// Every unit's flat gradient buffer, fp32, in model order; what pads it is 0. From `weight_half` on lies
  /// what accumulates in backward_weight.
  struct UnitGradients {
    int unit = 0;
    Tensor values;   ///< of set 0
    Tensor values2;  ///< of set 1; absent: there is one set
    int64_t weight_half = 0;
  };
  const std::vector<UnitGradients>& unit_gradients() const { return gradients_; }
  /// UsageError if the unit has none of that name.
  const Parameter& find(int unit, std::string_view name) const;
  /// The embedding's and the head's share of a tied weight, where they are on this rank; else null.
  const Parameter* tied_embedding() const { return tied_embedding_ < 0 ? nullptr : &at(tied_embedding_); }
  const Parameter* tied_head() const { return tied_head_ < 0 ? nullptr : &at(tied_head_); }

  /// Elements begin … of what the rank has of a parameter = values: the master, or where there is none what
  /// kernels read, rounded. Waits.
  void write(Stream& stream, const Parameter& parameter, int64_t begin, std::span<const float> values) const;
  /// Initial masters, compute copies, zero moments and gradients; padding between parameters too. Waits.
  void initialise(Stream& stream, math::Math& math, uint64_t seed);
  /// Zeroes everything, padding too: before values are copied in from elsewhere.
  void clear(Stream& stream);
  /// Compute copies from the masters, of what the rank owns: after a checkpoint was loaded, or units were
  /// moved.
  void refresh_compute(Stream& stream, math::Math& math);
  /// Whether there are only the weights that kernels read: no masters beside them (RankConfig::forward_only).
  bool forward_only() const { return forward_only_; }

  /// Whether kernels would read the same everywhere: with a sharded optimizer what others own is out of date
  /// from when owners have changed it until it was gathered.
  bool gathered() const { return gathered_; }
  void set_gathered(bool gathered) { gathered_ = gathered; }
  const Shard& shard() const { return shard_; }
  /// Of all sets.
  void zero_gradients(Stream& stream);
  /// A step's gradients, of two versions of the weights those of the selected set, begin with zeros. Where
  /// plans overwrite (math::Gemm::overwrites()) and there is one set, matmul weights are only marked instead:
  /// the first sum of the step is written over what is there.
  void begin_gradients(Stream& stream, bool plans_overwrite);
  /// The earlier version of the weights becomes that of now: there is no earlier one. Nothing where there is
  /// one version. With a sharded optimizer of what the rank owns, as of now.
  void forget_earlier(Stream& stream);

  /// Whether the next sum of the parameter's gradient is written over what is there. Who enqueues it takes
  /// the mark away.
  bool* first_sum(const Parameter& parameter) const { return &first_sums_[&parameter - parameters_.data()]; }

  /// The parameter's gradient in the selected set.
  Accumulator accumulator(const Parameter& parameter) const {
    return {parameter.gradient, parameter.gradient2, &selected_};
  }
  /// The set, 0 or 1, that what is enqueued from now on accumulates in. UsageError if there is none.
  void select_gradients(size_t set);
  /// In the selected set.
  Tensor owned_gradient(const Parameter& parameter) const { return parameter.owned_gradient(selected_ == 1); }
  const Tensor& gradients(const UnitGradients& unit) const {
    return selected_ == 0 ? unit.values : unit.values2;
  }

  /// What kernels read of the parameter, in the selected version.
  Weights weights(const Parameter& parameter) const {
    return {parameter.compute, parameter.before, &selected_version_};
  }
  /// 0: the weights of now; 1: those before the last update. UsageError if there are none.
  void select_version(size_t version);
  size_t selected_version() const { return selected_version_; }

 private:
  struct Buffer {
    void* memory = nullptr;
    size_t bytes = 0;
  };
  const Parameter& at(int64_t place) const { return parameters_[static_cast<size_t>(place)]; }
  // Initial values of elements [begin, begin + count), in host memory.
  void fill_on_threads(const ParameterSpec& spec, uint64_t seed, int64_t begin, int64_t count,
                       float* values) const;
  void add_unit(PlannedMemory& memory, const RankConfig& config, int unit, int64_t first_index);

  int threads_;
  size_t sets_;
  Shard shard_;
  bool forward_only_;
  bool gathered_ = false;
  size_t selected_ = 0;
  size_t versions_;
  size_t selected_version_ = 0;
  std::vector<Parameter> parameters_;
  std::unique_ptr<bool[]> first_sums_;  ///< one a parameter
  std::vector<UnitGradients> gradients_;
  std::vector<Buffer> others_;  // masters, copies, moments
  int64_t tied_embedding_ = -1;
  int64_t tied_head_ = -1;
};

}  // namespace penstock::model
