#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/device/arena.h"
#include "model/call_sites.h"
#include "model/parameter.h"
#include "model/rank_config.h"

namespace penstock::model {

/// Every named piece of device memory of a rank, before the rank exists (contract C3).
struct MemoryPlan {
  std::vector<PlannedAllocation> allocations;

  /// Adds a piece, rounded up; nothing for 0 bytes.
  void add(ArenaTag tag, std::string name, size_t bytes);
  size_t bytes(ArenaTag tag) const;
  size_t bytes() const;
  /// One line an allocation under one line an arena: bytes, name.
  std::string table() const;
};

/// How a unit's flat buffers are laid out: offsets in bytes, each parameter at a multiple of alignment_bytes.
/// What accumulates in backward_input stands first, so that either half of a unit's gradients is one run. A
/// tied weight that the rank shares has a gradient here and nothing else. Of moments, and of masters that
/// kernels read a copy of, there is what the member of a sharded optimizer owns.
struct UnitBuffers {
  std::vector<Slice> owned;    ///< what the rank's optimizer updates
  std::vector<size_t> master;  ///< npos: not there
  std::vector<size_t> moment;  ///< in moment1 and moment2; npos: not there
  std::vector<size_t> copy;    ///< in the compute copy; npos: not there
  std::vector<size_t> read;    ///< in an earlier version of what kernels read; npos: not there
  std::vector<size_t> gradient;
  std::vector<bool> whole_master;
  size_t master_bytes = 0;
  size_t moment_bytes = 0;
  size_t copy_bytes = 0;
  size_t read_bytes = 0;
  size_t gradient_bytes = 0;
  size_t weight_half = 0;  ///< where in the gradients those begin that accumulate in backward_weight
  static constexpr size_t npos = static_cast<size_t>(-1);
};
/// `forward_only`: see RankConfig.
UnitBuffers unit_buffers(const std::vector<ParameterSpec>& specs, DType compute, bool shares_tied_weight,
                         const Shard& shard = {}, bool forward_only = false);
/// The pieces of a unit's parameters.
void plan_parameters(const RankConfig& config, int unit, MemoryPlan& plan);

/// Bytes of a unit's part of the fp64 sums of squares of all blocks, which a sharded optimizer adds up over
/// its members. A tied weight stands with the embedding.
size_t block_sum_bytes(const std::vector<ParameterSpec>& specs);

/// What a stage's and a unit's pieces are called: "embedding.master", "attention_3.kept", "stage0.side_band".
std::string unit_piece(const ModelSection& model, int unit, std::string_view piece);
std::string stage_piece(size_t stage, std::string_view piece);

/// Bytes of what a tied weight's owners on two ranks receive of each other: gradients of what the member of a
/// sharded optimizer owns of it that owns most.
size_t tied_exchange_bytes(const RankConfig& config);
/// Bytes of one boundary buffer.
size_t boundary_bytes(const RankConfig& config);
/// Bytes of what a stage's last unit writes before it is converted to the wire's dtype, one for all of the
/// rank's boundaries; 0 where that is the compute dtype.
size_t staging_bytes(const RankConfig& config);
/// Whether any stage of the rank hands activations on, or gradients back.
bool has_output(const RankConfig& config);
bool has_d_input(const RankConfig& config);

/// Columns of the loss buffer: the head's, and those of units with terms of their own (none yet).
inline constexpr int64_t loss_terms = 1;

/// The plan of a rank: a pure function of the configuration and the call sites' workspace.
MemoryPlan plan_memory(const RankConfig& config, const CallSites& sites);

}  // namespace penstock::model
