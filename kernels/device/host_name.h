#pragma once

#include <string>

namespace penstock {

/// What this machine calls itself. DeviceError if the system does not say.
std::string host_name();

}  // namespace penstock
