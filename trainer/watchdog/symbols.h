#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock::watchdog {

/// Names of functions by address: those of libraries as they export them, and those of this program from its
/// own table, which exports nothing.
class Symbols {
 public:
  /// Reads the program's table, if it was not stripped.
  Symbols();

  /// "penstock::Executor::run(…) + 0x1c", or "/path/penstock + 0x3f10c" where no name is known.
  std::string name(const void* address) const;

 private:
  struct Function {
    uint64_t begin = 0;
    uint64_t size = 0;
    uint32_t name = 0;  ///< in names_
  };
  std::vector<Function> functions_;  ///< by address
  std::string names_;
};

}  // namespace penstock::watchdog
