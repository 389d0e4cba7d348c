#pragma once

#include <filesystem>
#include <string>

#include "trainer/hugging_face/read_config.h"
#include "trainer/job/job.h"

namespace penstock::hugging_face {

/// The text of a job file that goes on from an imported model in run folder `run`: the model in full, the
/// rest to be adapted. `tokenizer`: its path, or empty. `origin` is named in a comment.
std::string job_file(const ModelSection& model, const std::filesystem::path& run,
                     const std::string& tokenizer, const std::string& origin);

/// The imported model as a job wants it trained: the job's sequence length, vocabulary padding, dropout and
/// initial deviation. Fills the job's vocab_size where that was left to the tokenizer. DataError listing
/// every key of [model] in which the job's model is another.
ModelSection agree(Job& job, const ModelConfig& config, const std::string& job_name);

/// DataError if the model cannot read texts of `sequence_length` tokens: GPT-2 has learned so many positions.
void check_length(const ModelConfig& config, int64_t sequence_length);

}  // namespace penstock::hugging_face
