#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

#include "trainer/job/read_job.h"

namespace penstock::testing {

/// A tiny model whose run lies in `folder`/p; its data does not exist. 8 sequences a step, 2 a micro-batch.
inline Job small_job(const std::string& folder, const std::vector<std::string>& overrides = {}) {
  const std::string text = fmt::format(R"(
[run]
name = "p"
folder = "{}"
steps = 6
[model]
family = "gpt2"
layers = 2
hidden_size = 32
heads = 4
sequence_length = 16
vocab_size = 60
dropout = 0.1
[data]
train = ["nowhere"]
[batch]
global = 8
micro = 2
[learning_rate]
max = 1e-2
)",
                                       folder);
  return parse_job(text, "test.toml", overrides);
}

}  // namespace penstock::testing
