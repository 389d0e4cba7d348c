#pragma once

#include <memory>
#include <string>

#include "kernels/backend/matmul_plans.h"
#include "kernels/device/device.h"
#include "kernels/math/math.h"
#include "kernels/transport/world.h"
#include "parallel/runtime/pipeline_plan.h"
#include "trainer/job/job.h"

namespace penstock {

/// A device of the kind that the job asks for, with its mathematics.
struct Backend {
  std::unique_ptr<Device> device;
  math::Math math;
  /// Where products are planned once for all ranks (trainer/run_matmul_plans.h); null: they are no choice.
  std::shared_ptr<MatmulPlans> matmul_plans;
  std::string placement;              ///< on rank 0: which rank has which GPU, a line each; else empty
  std::unique_ptr<Device> processor;  ///< where hosts have a world of their own (World::hosts)

  /// Whose streams carry what the hosts tell each other; its clock is the device's.
  Device& messenger() { return processor ? *processor : *device; }
};

/// The backend of a rank that works by itself. DeviceError with the reason if this machine or build does not
/// have it.
Backend make_backend(const Job& job, int rank);
/// The backend of a rank of a run: collective, and before any communicator. The world learns of the device.
Backend make_backend(const Job& job, transport::World& world);

/// What the job asks of the pipeline: what `train` runs and `plan` counts. `logits`: it will generate.
runtime::PipelineRequest pipeline_request(const Job& job, bool logits = false);

}  // namespace penstock
