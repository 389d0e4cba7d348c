#include "trainer/generation.h"

#include <algorithm>
#include <numeric>

#include "trainer/step_batches.h"

namespace penstock {

void generate(Inference& model, std::vector<int32_t>& tokens, int64_t count, const TokenChoice& choice,
              uint64_t text, int32_t end_token, const std::function<void(int32_t)>& seen) {
  const auto window = static_cast<size_t>(model.job.model.sequence_length);
  BatchSet set(model.job, 1, *model.backend.device);
  HostMicroBatch& batch = set.batches()[0];
  std::fill(batch.targets.begin(), batch.targets.end(), -1);
  for (size_t at = 0; at < batch.positions.size(); ++at)
    batch.positions[at] = static_cast<int32_t>(at % window);
  for (int64_t made = 0; made < count; ++made) {
    const size_t length = std::min(tokens.size(), window);
    // What stands behind the text is never seen by it: attention is causal.
    std::copy(tokens.end() - static_cast<std::ptrdiff_t>(length), tokens.end(), batch.tokens.begin());
    const auto logits = model.engine->logits(set.bands()[0], static_cast<int64_t>(length) - 1);
    const int32_t next = next_token(logits, choice, text, tokens.size());
    tokens.push_back(next);
    seen(next);
    if (next == end_token) return;
  }
}

}  // namespace penstock
