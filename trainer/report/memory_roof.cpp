#include "trainer/report/memory_roof.h"

#include <algorithm>
#include <array>

namespace penstock {

double measure_memory_roof(Device& device, math::Math& math) {
  constexpr int rounds = 4;  // the first one warms up
  const Shape shape{int64_t{4} << 20};
  const size_t bytes = static_cast<size_t>(shape.elements()) * size_of(DType::fp32);
  Arena& arena = device.create_arena(ArenaTag::workspace, 3 * aligned(bytes));
  std::array<double, rounds + 1> stamps{};
  {
    const auto stream = device.create_stream("memory roof", StreamUse::compute);
    const Tensor a = arena.allocate("roof.a", DType::fp32, shape);
    const Tensor b = arena.allocate("roof.b", DType::fp32, shape);
    const Tensor sum = arena.allocate("roof.sum", DType::fp32, shape);
    stream->fill_zero(a.data, bytes);
    stream->fill_zero(b.data, bytes);
    stream->stamp(stamps.data());
    for (size_t round = 1; round < stamps.size(); ++round) {
      math.pointwise->add(*stream, a, b, sum);
      stream->stamp(&stamps[round]);
    }
    stream->synchronize();
  }
  device.destroy_arena(ArenaTag::workspace);
  double best = stamps[2] - stamps[1];
  for (size_t round = 3; round < stamps.size(); ++round)
    best = std::min(best, stamps[round] - stamps[round - 1]);
  return 3.0 * static_cast<double>(bytes) / best;
}

}  // namespace penstock
