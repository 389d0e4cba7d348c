#pragma once

#include <cstddef>
#include <memory>

#include "kernels/math/math.h"
#include "model/cache_config.h"
#include "model/rank_config.h"

namespace penstock::model {

/// The plans of every matmul and attention of a rank, made once: layers share shapes, so they share plans.
/// Absent where no unit of the rank needs one.
struct CallSites {
  std::unique_ptr<math::Linear> qkv;
  std::unique_ptr<math::Linear> attention_out;
  std::unique_ptr<math::Linear> up;  ///< GPT-2: up; Llama: gate and up in one
  std::unique_ptr<math::Linear> down;
  std::unique_ptr<math::AttentionPlan> attention;
  std::unique_ptr<math::CachedAttentionPlan> cached_attention;  ///< in place of that, where text is generated
  std::unique_ptr<math::HeadPlan> head;

  /// Of the plan that needs most: they run one after another on one stream.
  size_t workspace_bytes() const;
};

/// UsageError with the reason where the implementation does not support a shape or dtype.
CallSites make_call_sites(math::Math& math, const RankConfig& config);

/// Those of a pass (pass_rows()) over tokens of texts that are generated; the head's are the last one's.
CallSites make_pass_sites(math::Math& math, const RankConfig& config, const CacheConfig& cache, size_t pass);

}  // namespace penstock::model
