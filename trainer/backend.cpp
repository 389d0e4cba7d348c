#include "trainer/backend.h"

#include "kernels/cpu/device.h"
#include "kernels/cpu/make_math.h"

namespace penstock {

Backend make_backend(const Job& job, int rank) {
  DeviceOptions options;
  options.rank = rank;
  options.threads = static_cast<int>(job.parallel.threads);
  Backend backend;
  backend.device = cpu::make_cpu_device(options);
  backend.math = cpu::make_math(*backend.device);
  return backend;
}

model::RankConfig whole_model_config(const Job& job, int64_t micro_batches) {
  const RecomputeMode mode = job.recompute.stages.empty() ? job.recompute.mode : job.recompute.stages.front();
  model::RankConfig config;
  config.model = job.model;
  config.compute = model::compute_dtype(job.precision.compute);
  config.micro_batch = job.batch.micro;
  config.micro_batches = micro_batches;
  config.document_mask = job.data.document_mask;
  config.seed = job.run.seed;
  config.optimizer = job.optimizer;
  config.stages = {model::whole_model(job.model, mode)};
  return config;
}

}  // namespace penstock
