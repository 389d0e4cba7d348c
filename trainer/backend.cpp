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

runtime::PipelineRequest pipeline_request(const Job& job, bool logits) {
  runtime::PipelineRequest request;
  request.parallel = job.parallel;
  request.common.model = job.model;
  request.common.compute = model::compute_dtype(job.precision.compute);
  request.common.micro_batch = job.batch.micro;
  request.common.micro_batches = job.micro_batches();
  request.common.document_mask = job.data.document_mask;
  request.common.seed = job.run.seed;
  request.common.optimizer = job.optimizer;
  request.recompute = job.recompute;
  request.gradient_wire = model::compute_dtype(job.precision.gradient_reduce);
  request.logits = logits;
  return request;
}

}  // namespace penstock
