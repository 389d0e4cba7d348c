#pragma once

#include <memory>

#include "kernels/device/device.h"
#include "kernels/math/math.h"
#include "model/rank_config.h"
#include "trainer/job/job.h"

namespace penstock {

/// A device of the kind that the job asks for, with its mathematics.
struct Backend {
  std::unique_ptr<Device> device;
  math::Math math;
};

/// The backend of one rank. DeviceError with the reason if this machine or build does not have it.
Backend make_backend(const Job& job, int rank);

/// The whole model on one rank, as the job says: what `train` runs and `plan` counts. `micro_batches`: the
/// most of one step or evaluation.
model::RankConfig whole_model_config(const Job& job, int64_t micro_batches);

}  // namespace penstock
