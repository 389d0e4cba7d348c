// The table of schedules: one row each. Nothing else in the program knows a schedule by its name.
#pragma once

#include <string>
#include <vector>

#include "parallel/schedule/schedule.h"

namespace penstock::schedule {

struct ScheduleKind {
  const char* name;
  // The class in torch.distributed.pipelining that runs the same order; "" where there is none.
  const char* pytorch_name;
  // Chunks a rank: what is taken by default, and what is allowed.
  int default_chunks;
  int min_chunks;
  int max_chunks;
  // Copies of the weights that run at once, and versions of them that are kept.
  int copies;
  int versions;
  const char* summary;
  // Why `options` (complete, within the limits) cannot be met, with the smallest M that could; "" if they
  // can.
  std::string (*refusal)(const ScheduleOptions& options);
  Schedule (*generate)(const ScheduleOptions& options);
};

const std::vector<ScheduleKind>& schedule_kinds();

// Throws ScheduleError with the nearest known name.
const ScheduleKind& find_schedule_kind(const std::string& name);

// Copies of the weights that the schedule of that name runs; 1 for what the table does not name.
int copies_of(const std::string& name);
// Versions of them that it keeps, one step after another; likewise.
int versions_of(const std::string& name);

// The schedule `name`, or the one in a file for "file:<path>" (which must fit the options).
// Throws ScheduleError for an unknown name, and for options that the definition does not allow.
Schedule generate(const std::string& name, const ScheduleOptions& options);

// Where that schedule puts the stages of its first copy of the weights, without actions: for what runs
// forwards alone. options.micro_batches counts for a file only, and may be 0: whatever it has.
Schedule placement(const std::string& name, const ScheduleOptions& options);

}  // namespace penstock::schedule
