#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace penstock::hugging_face {

struct ImportOptions {
  std::string run;                ///< the folder of a run that has no checkpoint yet
  std::string job;                ///< a job file that the model is to be trained by; empty: one is written
  int64_t sequence_length = 0;    ///< of the job that is written; 0: the model's longest, at most 4096
  std::set<std::string> ignored;  ///< fields of config.json that are passed over
};

struct ImportResult {
  std::string checkpoint;  ///< its folder
  std::string job;         ///< the job file to go on with
  std::string architecture;
  std::string types;  ///< of the weights that were read
  int64_t parameters = 0;
  std::vector<std::string> notes;
};

/// Reads a folder that transformers wrote and saves it as step 0 of a run, moments zero, by the protocol of
/// every checkpoint. The run's first start takes it, whatever else its job says. A tokenizer.json of our
/// class is copied into the run's folder.
///
/// DataError naming all that is unsupported in config.json, or every tensor that is missing, too many or of
/// another shape; RunFolderError, SaveError, WriteError where the run is in use, or cannot be written.
ImportResult import_model(const std::string& folder, const ImportOptions& options);

}  // namespace penstock::hugging_face
