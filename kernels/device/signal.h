#pragma once

#include <cstdint>
#include <string>

namespace penstock {

/// A monotone counter, written and waited for on streams, that orders work between ranks of one process.
/// Unlike an event it may be waited for before it is written (CUDA: stream memory operations). It must
/// outlive every call that names it; queued work keeps what it needs.
class Signal {
 public:
  virtual ~Signal() = default;
  virtual const std::string& name() const = 0;
  /// The largest value written so far; 0 at first.
  virtual uint64_t value() const = 0;
  /// Ends the waits for it, from any thread: for those whose peers are gone. Writes that are still queued may
  /// set it back, so it is called again until they are done.
  virtual void release() = 0;
};

}  // namespace penstock
