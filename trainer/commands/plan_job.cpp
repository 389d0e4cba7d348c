#include "trainer/commands/plan_job.h"

#include <fmt/format.h>

#include "trainer/backend.h"
#include "trainer/corpus.h"
#include "trainer/job_costs.h"
#include "trainer/memory_report.h"

namespace penstock::commands {

int run_plan_job(const JobArguments& arguments, bool json) {
  Job job = arguments.read();
  Corpus::open_tokenizer(job);
  Backend backend = make_backend(job, 0);
  const runtime::PipelinePlan plan = runtime::plan_pipeline(costed_request(job, backend, nullptr).request);
  const MemoryReport report = memory_report(job, backend, plan);
  if (json) {
    fmt::print("{}\n", to_json(report).dump(2));
  } else {
    fmt::print("{} on {}: {}", arguments.file, backend.device->description(), table(report));
  }
  check_memory_limit(report, job, *backend.device, false);  // after the pieces: they say what to cut
  return 0;
}

}  // namespace penstock::commands
