#include "tests/trainer/hugging_face/computed.h"

#include <algorithm>
#include <numeric>

#include "kernels/transport/inproc/inproc_world.h"
#include "trainer/generation.h"
#include "trainer/inference.h"
#include "trainer/step_batches.h"

namespace penstock::hugging_face {

Computed compute(const Job& job, const std::vector<int32_t>& tokens, size_t continued) {
  Computed computed;
  transport::run_inproc(static_cast<int>(job.parallel.pipeline), {}, [&](transport::World& world) {
    const transport::AbortOnUnwind abort(world);
    Inference model = open_inference(job, "", world, true);
    BatchSet set(model.job, 1, *model.backend.device);
    HostMicroBatch& batch = set.batches()[0];
    std::fill(batch.tokens.begin(), batch.tokens.end(), 0);
    std::copy(tokens.begin(), tokens.end(), batch.tokens.begin());
    std::iota(batch.positions.begin(), batch.positions.end(), 0);
    for (size_t at = 0; at < tokens.size(); ++at) {
      const auto row = model.engine->logits(set.bands()[0], static_cast<int64_t>(at));
      if (world.rank() == 0) computed.logits.insert(computed.logits.end(), row.begin(), row.end());
    }
    if (continued == 0) return;
    model.engine.reset();
    TokenChoice likeliest;
    likeliest.temperature = 0;
    const std::vector<GenerationRequest> request{{tokens, 0}};
    const auto count = static_cast<int64_t>(continued);
    const GeneratingModel generating = open_generation(
        job, nullptr, "", world, {1, needed_positions(request, count, job.model.sequence_length)});
    generate(*generating.engine, request, count, likeliest, [&](size_t, int32_t token) {
      if (world.rank() == 0) computed.greedy.push_back(token);
      return false;
    });
  });
  return computed;
}

}  // namespace penstock::hugging_face
