#include "model/rank_layout.h"

#include "model/parameter.h"
#include "model/unit_id.h"

namespace penstock::model {

void add_held(const RankConfig& config, int rank, layout::Layout& layout) {
  for (int unit = 0; unit < unit_count(config.model); ++unit) {
    if (!has_unit(config, unit)) continue;
    for (const ParameterSpec& spec : unit_parameters(config.model, unit_at(config.model, unit))) {
      if (spec.tied && shares_tied_weight(config)) continue;
      layout.push_back({spec.name, spec.slice, rank});
    }
  }
}

}  // namespace penstock::model
