#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/run_view/cause.h"
#include "trainer/run_view/run_record.h"
#include "trainer/run_view/run_step.h"

namespace penstock::run_report {

/// Some steps in a row: means over those that know a figure.
struct Bucket {
  int64_t first_step = 0;
  int64_t last_step = 0;
  int64_t steps = 0;
  double seconds = 0;  ///< their time, pauses included
  double step = 0;     ///< mean seconds without pauses
  double longest_step = 0;
  double tokens = 0;  ///< of them
  std::optional<double> loss;
  std::optional<double> bubble_ratio;
  std::optional<double> stage_imbalance;
  std::optional<double> predicted_step;  ///< seconds
  run_view::CauseSums causes;            ///< seconds, mean over the ranks
};

/// A rank over all steps that count.
struct RankHistory {
  int rank = 0;
  int replica = 0;
  int64_t steps = 0;
  accounting::PartSeconds parts;  ///< mean seconds of a step
  std::map<std::pair<int, int>, double>
      behind;  ///< (rank, link to or −1) → mean seconds that it waited for it
};

/// Where the wall-clock time of a run went, in seconds; the sum is `wall`.
struct Goodput {
  double wall = 0;
  run_view::CauseSums steps;  ///< of steps that count, mean over the ranks
  double redone_steps = 0;    ///< steps that an interruption made lost, and that were done again
  double starting = 0;        ///< of attempts what is no step: start, end
  double not_running = 0;     ///< between two attempts
};

/// All of a run, in bounded memory.
struct RunHistory {
  int64_t steps = 0;
  int64_t damaged_lines = 0;
  int64_t attempts = 0;
  std::vector<Bucket> buckets;
  std::vector<RankHistory> ranks;
  Goodput goodput;
};

/// Reads metrics.jsonl twice: which lines count (of a step that was done again the last), then their figures,
/// in at most `most_buckets` buckets of equally many steps. `events` of all attempts say when these began and
/// ended. data::DataError where the file cannot be read; one that is not there has no steps.
RunHistory read_history(const std::string& metrics_file, const std::vector<run_view::RunEvent>& events,
                        int64_t most_buckets);

}  // namespace penstock::run_report
