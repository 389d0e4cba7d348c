#pragma once

#include <stdexcept>
#include <string>

namespace penstock {

/// A device, stream or kernel failed: the message names what was being done, where (stream, rank), what was
/// found.
class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A call broke a rule of the interface (a wrong shape, an event waited for before its record): a bug of the
/// caller.
class UsageError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

}  // namespace penstock
