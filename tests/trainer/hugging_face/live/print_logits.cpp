// print_logits JOB TOKEN…: the logits of every token by the job's newest checkpoint, a line a token, for
// tests/program/hugging_face.py. The program itself has no use for such a command.
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tests/trainer/hugging_face/computed.h"
#include "trainer/job/read_job.h"

int main(int argc, char** argv) {
  using namespace penstock;
  if (argc < 3) {
    fmt::print(stderr, "usage: print_logits JOB TOKEN...\n");
    return 2;
  }
  try {
    const Job job = read_job(argv[1], {"precision.compute=fp32", "batch.global=1", "batch.micro=1"});
    std::vector<int32_t> tokens;
    for (int at = 2; at < argc; ++at) tokens.push_back(static_cast<int32_t>(std::stol(argv[at])));
    const hugging_face::Computed computed = hugging_face::compute(job, tokens, 0);
    const size_t width = computed.logits.size() / tokens.size();
    for (size_t row = 0; row < tokens.size(); ++row) {
      const float* first = computed.logits.data() + row * width;
      fmt::print("{:.9g}\n", fmt::join(first, first + width, " "));
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "print_logits: {}\n", error.what());
    return 1;
  }
  return 0;
}
