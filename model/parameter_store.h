#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/device/stream.h"
#include "kernels/math/math.h"
#include "model/parameter.h"
#include "model/planned_memory.h"
#include "model/rank_config.h"

namespace penstock::model {

/// A parameter and its memory, all of spec.shape.
struct Parameter {
  ParameterSpec spec;
  int unit = 0;
  int64_t index = 0;  ///< in model_parameters(): the place of its squares in the global norm
  Tensor master;      ///< fp32
  Tensor compute;     ///< what kernels read: a bf16 copy, or the master
  Tensor gradient;    ///< fp32 accumulator
  Tensor moment1;     ///< fp32
  Tensor moment2;     ///< fp32
  bool shared =
      false;  ///< the head's share of a tied weight whose master, copy and moments are the embedding's
};

/// The parameters of a rank's units, one flat buffer a unit in the arena of each tag.
class ParameterStore {
 public:
  ParameterStore(PlannedMemory& memory, const RankConfig& config);

  /// In model order. A tied weight stands twice: as the embedding's and as the head's.
  const std::vector<Parameter>& parameters() const { return parameters_; }
  /// Every unit's flat gradient buffer, fp32, in model order; what pads it is 0.
  struct UnitGradients {
    int unit = 0;
    Tensor values;
  };
  const std::vector<UnitGradients>& unit_gradients() const { return gradients_; }
  /// UsageError if the unit has none of that name.
  const Parameter& find(int unit, std::string_view name) const;
  /// The embedding's and the head's share of a tied weight, where they are on this rank; else null.
  const Parameter* tied_embedding() const { return tied_embedding_ < 0 ? nullptr : &at(tied_embedding_); }
  const Parameter* tied_head() const { return tied_head_ < 0 ? nullptr : &at(tied_head_); }

  /// Initial masters, compute copies, zero moments and gradients; padding between parameters too. Waits.
  void initialise(Stream& stream, math::Math& math, uint64_t seed);
  /// Compute copies from the masters: after a checkpoint was loaded.
  void refresh_compute(Stream& stream, math::Math& math);
  void zero_gradients(Stream& stream);

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
  std::vector<Parameter> parameters_;
  std::vector<UnitGradients> gradients_;
  std::vector<Buffer> others_;  // masters, copies, moments
  int64_t tied_embedding_ = -1;
  int64_t tied_head_ = -1;
};

}  // namespace penstock::model
