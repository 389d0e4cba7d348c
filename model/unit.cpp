#include "model/unit.h"

#include "kernels/device/error.h"
#include "model/attention_unit.h"
#include "model/embedding_unit.h"
#include "model/head_unit.h"
#include "model/mlp_unit.h"

namespace penstock::model {

std::unique_ptr<Unit> make_unit(const UnitContext& context, int index, RecomputeMode mode) {
  switch (unit_at(context.config.model, index).kind) {
    case UnitKind::embedding:
      return std::make_unique<EmbeddingUnit>(context);
    case UnitKind::attention:
      return std::make_unique<AttentionUnit>(context, index, mode);
    case UnitKind::mlp:
      return std::make_unique<MlpUnit>(context, index, mode);
    case UnitKind::head:
      return std::make_unique<HeadUnit>(context, index);
  }
  throw UsageError("a unit of unknown kind");
}

}  // namespace penstock::model
