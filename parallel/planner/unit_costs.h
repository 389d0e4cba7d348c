#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace penstock::planner {

/// What a unit rebuilds in its backward pass instead of keeping it. In order of memory saved.
enum class Recompute : uint8_t { none, selective, full };
inline constexpr size_t recompute_modes = 3;
/// "none", "selective", "full", as in the job file.
const char* to_string(Recompute mode);

/// One micro-batch through one unit under one recompute mode. Seconds and bytes.
struct ModeCosts {
  double forward = 0;          ///< F
  double recompute = 0;        ///< R; runs at the start of I
  double backward_input = 0;   ///< I without R; the head's whole pass
  double backward_weight = 0;  ///< W
  /// Held F → I (a forward slot), F → W (a kept slot), and I → W (a weight slot), by one micro-batch.
  int64_t forward_bytes = 0;
  int64_t kept_bytes = 0;
  int64_t weight_bytes = 0;
  /// Scratch of one action: a rank holds the most that any of its units asks for.
  int64_t transient_bytes = 0;

  friend bool operator==(const ModeCosts&, const ModeCosts&) = default;
};

/// A unit of placement: everything the planner knows of it.
struct UnitCosts {
  std::string name;       ///< "embedding", "attention_3", "mlp_3", "head"
  double parameters = 0;  ///< own ones: a tied weight counts at the embedding alone
  double flops = 0;       ///< forward of one micro-batch, by formula: what a cut by FLOPs balances
  double layers = 0;      ///< what a cut by layers balances: 1 for attention and mlp, else 0
  /// Held all the time: master weights, compute copy, gradient, moments.
  int64_t resident_bytes = 0;
  int64_t gradient_bytes = 0;   ///< of these the gradient: what replicas reduce
  int64_t workspace_bytes = 0;  ///< of products and attention: a rank holds the most of its units
  /// What goes with a micro-batch beside activations (positions, sample ids, …), in every forward slot of a
  /// stage: a stage holds the most of its units. Tokens and targets count in forward_bytes of embedding and
  /// head.
  int64_t side_band_bytes = 0;
  double optimizer_step = 0;  ///< seconds
  std::array<ModeCosts, recompute_modes> modes;

  const ModeCosts& in(Recompute mode) const { return modes[static_cast<size_t>(mode)]; }
  friend bool operator==(const UnitCosts&, const UnitCosts&) = default;
};

/// A model at one micro-batch size. Units in the order of the model.
struct ModelCosts {
  std::vector<UnitCosts> units;
  /// Modes that the units' figures are known for.
  std::array<bool, recompute_modes> available{true, true, true};
  int64_t micro_batch = 1;     ///< sequences
  int64_t tokens = 0;          ///< of one micro-batch: micro_batch · sequence length
  int64_t boundary_bytes = 0;  ///< of the message between two stages, and of a buffer for it
  int64_t rank_bytes = 0;      ///< what every rank holds beside its units, slots and buffers
  /// Head and embedding share a weight: two ranks that hold one each exchange its gradient, and hold
  /// `tied_exchange_bytes` more; a rank that holds both holds `tied_shared_bytes` less.
  bool tied_embeddings = false;
  int64_t tied_exchange_bytes = 0;
  int64_t tied_shared_bytes = 0;
  std::string source;  ///< where the figures come from, for people

  friend bool operator==(const ModelCosts&, const ModelCosts&) = default;
};

/// What a message costs on a directed edge: it occupies the edge for bytes / bandwidth, and arrives `latency`
/// later.
struct Edge {
  double latency = 0;                                          ///< seconds
  double bandwidth = std::numeric_limits<double>::infinity();  ///< bytes a second, both directions at once

  friend bool operator==(const Edge&, const Edge&) = default;
};

struct LinkCosts {
  /// One for all, or (P · P): edges[source · P + destination].
  std::vector<Edge> edges{{}};
  /// Summing gradients over the replicas of a rank: latency + bytes of gradients / bandwidth.
  Edge reduction;
  /// Compute takes (1 + traffic_slowdown) times as long while a transfer or reduction of its rank is under
  /// way.
  double traffic_slowdown = 0;

  friend bool operator==(const LinkCosts&, const LinkCosts&) = default;
};

}  // namespace penstock::planner
