#pragma once

#include <string>
#include <utility>

namespace penstock::math {

/// Whether an implementation offers an operation for a dtype and shape; asked before use, so that nothing
/// aborts.
struct Support {
  std::string reason;  ///< empty: supported; else why not, for the error message
  explicit operator bool() const { return reason.empty(); }
  static Support yes() { return {}; }
  static Support no(std::string why) { return {std::move(why)}; }
};

}  // namespace penstock::math
