#pragma once

#include <stdexcept>

namespace penstock::simt {

/// A kernel broke a rule of the machine. The message names the kernel, block, thread, source line and rule.
class Fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace penstock::simt
