#pragma once

#include <cstdint>
#include <vector>

#include "kernels/transport/inproc/inproc_world.h"
#include "trainer/generation.h"
#include "trainer/inference.h"

namespace penstock {

using Texts = std::vector<std::vector<int32_t>>;

/// What the job's newest checkpoint goes on with behind each prompt, up to a token 7, on all ranks of the
/// job.
inline Texts continued(const Job& job, const Texts& prompts, int64_t count, const TokenChoice& choice,
                       int64_t slots, GenerationFigures* figures = nullptr) {
  Texts texts(prompts.size());
  std::vector<GenerationRequest> requests;
  for (const auto& prompt : prompts) requests.push_back({prompt, requests.size()});
  const int64_t positions = needed_positions(requests, count, job.model.sequence_length);
  transport::run_inproc(
      static_cast<int>(job.parallel.pipeline * job.parallel.data), {}, [&](transport::World& world) {
        const transport::AbortOnUnwind abort(world);
        const GeneratingModel model = open_generation(job, nullptr, "", world, {slots, positions});
        const GenerationFigures mine =
            generate(*model.engine, requests, count, choice, [&](size_t request, int32_t token) {
              if (world.rank() == 0) texts[request].push_back(token);
              return token == 7;
            });
        if (world.rank() == 0 && figures != nullptr) *figures = mine;
      });
  return texts;
}

}  // namespace penstock
