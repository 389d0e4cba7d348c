#include "model/rank_layout.h"

#include "model/parameter.h"
#include "model/unit_id.h"

namespace penstock::model {

void add_held(const RankConfig& config, int rank, layout::Layout& layout) {
  for (int unit = 0; unit < unit_count(config.model); ++unit) {
    if (!has_unit(config, unit)) continue;
    const auto specs = unit_parameters(config.model, unit_at(config.model, unit));
    const std::vector<Slice> owned = shard_slices(specs, config.shard);
    for (size_t i = 0; i < specs.size(); ++i) {
      if (specs[i].tied && shares_tied_weight(config)) continue;
      layout.push_back({specs[i].name, owned[i], rank});
    }
  }
}

}  // namespace penstock::model
