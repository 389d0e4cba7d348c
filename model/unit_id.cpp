#include "model/unit_id.h"

#include <fmt/format.h>

#include "kernels/device/error.h"

namespace penstock::model {

int unit_count(const ModelSection& model) {
  return static_cast<int>(2 * model.layers + 2);
}

UnitId unit_at(const ModelSection& model, int index) {
  const int count = unit_count(model);
  if (index < 0 || index >= count) {
    throw UsageError(fmt::format("unit {} of a model that has units 0 to {}", index, count - 1));
  }
  if (index == 0) return {UnitKind::embedding, 0};
  if (index == count - 1) return {UnitKind::head, 0};
  return {index % 2 == 1 ? UnitKind::attention : UnitKind::mlp, (index - 1) / 2};
}

std::string name_of(UnitId unit) {
  switch (unit.kind) {
    case UnitKind::embedding:
      return "embedding";
    case UnitKind::attention:
      return fmt::format("attention_{}", unit.layer);
    case UnitKind::mlp:
      return fmt::format("mlp_{}", unit.layer);
    case UnitKind::head:
      return "head";
  }
  return "?";
}

}  // namespace penstock::model
