#pragma once

#include "kernels/transport/world.h"
#include "trainer/participant.h"

namespace penstock {

/// The union of all ranks' wishes, the same on every rank. Of several ranks that stop, the lowest gives code
/// and reason; the arrangement is rank 0's. After a step that is taken back nothing
/// is finished, evaluated or saved, nor is what is unfit saved, whoever wishes it. Collective; one round of
/// messages where nobody stops and nothing is arranged otherwise.
Decision vote(transport::World& world, const Decision& wishes);

}  // namespace penstock
