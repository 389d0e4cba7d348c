#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainer/job/job.h"

namespace penstock::hugging_face {

struct Computed {
  std::vector<float> logits;    ///< of every token, row by row
  std::vector<int32_t> greedy;  ///< the likeliest continuation
};

/// What the model of a job's newest checkpoint says of a text (shorter than its sequences), on as many ranks
/// (threads) as the job has.
Computed compute(const Job& job, const std::vector<int32_t>& tokens, size_t continued);

}  // namespace penstock::hugging_face
