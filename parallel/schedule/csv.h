// Schedules in PyTorch's exchange notation: CSV, one row a rank, one cell an action,
// `<stage><op><micro-batch>`, op F, I, W or B; empty cells are idle time. Reading also takes PyTorch's
// "(0F3;1B2)OVERLAP_F_B" for a paired F and B; writing makes two cells of it. Transfers and collectives are
// not part of it: the lowering places them.
#pragma once

#include <string>

#include "parallel/schedule/schedule.h"

namespace penstock::schedule {

std::string write_csv(const Schedule& schedule);

// `text` as a schedule; `source` names it in errors (ScheduleError, "source:line:column: …"). Ranks,
// micro-batches, chunks, copies and placement come from the text; those that the options give (other than 0)
// must agree with it. The result is complete in form; whether it can run is the validator's question.
Schedule read_csv(const std::string& text, const std::string& source, const ScheduleOptions& options);

Schedule read_csv_file(const std::string& path, const ScheduleOptions& options);

}  // namespace penstock::schedule
