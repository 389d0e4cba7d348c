#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "trainer/job/read_job.h"

namespace penstock {

/// The smallest job that is complete.
inline std::string example_job() {
  return R"([run]
name = "small"
steps = 100

[model]
family = "gpt2"
layers = 2
hidden_size = 64
heads = 4
sequence_length = 32
vocab_size = 300

[data]
train = ["data/kjv"]

[batch]
global = 8
micro = 4

[learning_rate]
max = 0.001
)";
}

/// What parse_job() refuses the job with, or "" if it takes it.
inline std::string refusal(const std::string& text, const std::vector<std::string>& overrides = {},
                           const Launch& launch = {}) {
  try {
    parse_job(text, "job.toml", overrides, launch);
  } catch (const JobError& error) {
    return error.what();
  }
  return "";
}

/// example_job() with one piece of text replaced.
inline std::string changed(const std::string& from, const std::string& to) {
  std::string text = example_job();
  const size_t at = text.find(from);
  if (at == std::string::npos) throw std::logic_error("example_job() does not hold " + from);
  return text.replace(at, from.size(), to);
}

}  // namespace penstock
