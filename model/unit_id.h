#pragma once

#include <cstdint>
#include <string>

#include "model/model_section.h"

namespace penstock::model {

/// The unit of placement is the residual sub-layer: embedding, attention_0, mlp_0, …, attention_{L−1},
/// mlp_{L−1}, head.
enum class UnitKind : uint8_t { embedding, attention, mlp, head };

struct UnitId {
  UnitKind kind = UnitKind::embedding;
  int64_t layer = 0;  ///< of attention and mlp; 0 otherwise
  bool operator==(const UnitId&) const = default;
};

/// 2·layers + 2.
int unit_count(const ModelSection& model);
/// The `index`-th unit along the model; UsageError outside 0…unit_count−1.
UnitId unit_at(const ModelSection& model, int index);
/// "embedding", "attention_3", "mlp_3", "head".
std::string name_of(UnitId unit);

}  // namespace penstock::model
