#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/job/job.h"
#include "trainer/job/problems.h"

namespace penstock {

/// What is known of the machine when a job is read: some defaults follow from it.
struct Launch {
  int64_t ranks = 1;  ///< of this run; 0: not known yet, so that parallel.data = "auto" stays 0
  bool cuda = false;  ///< a CUDA device is present and this build can use it
};

/// Reads a job file, applies `--set section.key=value` arguments on top (later ones win), checks every value,
/// fills what follows from other values, and refuses what this version cannot do. The result is complete, but
/// for model.vocab_size, which stays 0 where it is the tokenizer's. Throws JobError with every problem.
Job read_job(const std::filesystem::path& file, const std::vector<std::string>& overrides,
             const Launch& launch = {});

/// The same of a text in memory; `name` stands for the file in messages.
Job parse_job(std::string_view text, const std::string& name, const std::vector<std::string>& overrides,
              const Launch& launch = {});

/// Only the values, as far as each is right by itself: neither derived defaults nor checks across keys. For
/// tools that look at jobs of other versions, and for tests.
Job parse_job_values(std::string_view text, const std::string& name);

}  // namespace penstock
