#include "trainer/commands/plan_job.h"

#include <filesystem>

#include <fmt/format.h>

#include "model/call_sites.h"
#include "trainer/backend.h"
#include "trainer/corpus.h"
#include "trainer/memory_report.h"
#include "trainer/process_memory.h"

namespace penstock::commands {

int run_plan_job(const JobArguments& arguments, bool json) {
  Job job = arguments.read();
  Corpus::open_tokenizer(job);
  Backend backend = make_backend(job, 0);
  const model::RankConfig config = whole_model_config(job, job.micro_batches());
  model::check(config);
  const model::CallSites sites = model::make_call_sites(backend.math, config);
  const MemoryReport report =
      memory_report(job, model::plan_memory(config, sites), process_memory().resident);
  if (json) {
    fmt::print("{}\n", to_json(report).dump(2));
  } else {
    fmt::print("{} on {}: {}", arguments.file, backend.device->description(), table(report));
  }
  return 0;
}

}  // namespace penstock::commands
