#include "tests/model/fixture.h"

#include <bit>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace penstock::testing {

std::map<std::string, FixtureTensor> read_fixture(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<std::pair<std::string, bool>> order;  // name, whether f32
  std::map<std::string, FixtureTensor> tensors;
  std::string line;
  while (std::getline(in, line) && !line.empty()) {
    std::istringstream fields(line);
    std::string name;
    std::string dtype;
    fields >> name >> dtype;
    order.emplace_back(name, dtype == "f32");
    for (int64_t extent = 0; fields >> extent;) tensors[name].shape.push_back(extent);
  }
  for (const auto& [name, is_float] : order) {
    int64_t count = 1;
    for (const int64_t extent : tensors[name].shape) count *= extent;
    for (int64_t i = 0; i < count; ++i) {
      uint32_t word = 0;
      in.read(reinterpret_cast<char*>(&word), sizeof(word));
      tensors[name].values.push_back(is_float ? static_cast<double>(std::bit_cast<float>(word))
                                              : static_cast<double>(static_cast<int32_t>(word)));
    }
  }
  if (order.empty() || !in || in.peek() != std::ifstream::traits_type::eof()) {
    throw std::runtime_error(path + " is not a fixture: run make_fixtures.py beside it");
  }
  return tensors;
}

}  // namespace penstock::testing
