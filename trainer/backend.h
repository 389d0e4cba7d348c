#pragma once

#include <memory>

#include "kernels/device/device.h"
#include "kernels/math/math.h"
#include "parallel/runtime/pipeline_plan.h"
#include "trainer/job/job.h"

namespace penstock {

/// A device of the kind that the job asks for, with its mathematics.
struct Backend {
  std::unique_ptr<Device> device;
  math::Math math;
};

/// The backend of one rank. DeviceError with the reason if this machine or build does not have it.
Backend make_backend(const Job& job, int rank);

/// What the job asks of the pipeline: what `train` runs and `plan` counts. `logits`: it will generate.
runtime::PipelineRequest pipeline_request(const Job& job, bool logits = false);

}  // namespace penstock
