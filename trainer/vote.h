#pragma once

#include "kernels/transport/world.h"
#include "trainer/participant.h"

namespace penstock {

/// The union of all ranks' wishes, the same on every rank. Of several ranks that stop, the lowest gives code
/// and reason; the arrangement is rank 0's. Collective; one round of messages where nobody stops and nothing
/// is arranged otherwise.
Decision vote(transport::World& world, const Decision& wishes);

}  // namespace penstock
