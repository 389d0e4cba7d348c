#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace penstock::testing {

/// A tensor of a fixture file; `values` holds i32 too, exactly.
struct FixtureTensor {
  std::vector<int64_t> shape;
  std::vector<double> values;
};

/// Reads the format that fixtures/make_fixtures.py states. Throws std::runtime_error for a file that is not
/// so.
std::map<std::string, FixtureTensor> read_fixture(const std::string& path);

}  // namespace penstock::testing
