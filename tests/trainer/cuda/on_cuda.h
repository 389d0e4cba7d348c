#pragma once

#include <string>
#include <vector>

#include "tests/trainer/tiny_training.h"

namespace penstock {

/// What makes a tiny job one of the CUDA backend that the fake runtime gets through quickly.
inline std::vector<std::string> on_cuda(std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"run.steps=3", "precision.compute=fp32", "parallel.device=cuda",
                             "cuda.attention=native", "evaluation.every_steps=0"});
  return more;
}

}  // namespace penstock
