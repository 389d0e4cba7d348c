#include "trainer/report/matmul_roof.h"

#include <algorithm>
#include <array>

namespace penstock {

double measure_matmul_roof(Device& device, math::Math& math, DType dtype) {
  constexpr int rounds = 4;  // the first one warms up
  const auto linear = math.gemm->plan_linear(matmul_roof_shape(dtype));
  const int64_t extent = linear->shape().tokens;
  const Shape square{extent, extent};
  const size_t matrix = aligned(static_cast<size_t>(square.elements()) * size_of(dtype));
  Arena& arena = device.create_arena(ArenaTag::workspace, 3 * matrix + aligned(linear->workspace_bytes()));
  std::array<double, rounds + 1> stamps{};
  {
    const auto stream = device.create_stream("roof", StreamUse::compute);
    const Tensor x = arena.allocate("roof.x", dtype, square);
    const Tensor w = arena.allocate("roof.w", dtype, square);
    const Tensor y = arena.allocate("roof.y", dtype, square);
    const auto bytes = static_cast<int64_t>(linear->workspace_bytes());
    const Tensor workspace = bytes > 0 ? arena.allocate("roof.workspace", DType::u8, Shape{bytes}) : Tensor{};
    stream->fill_zero(x.data, x.bytes());
    stream->fill_zero(w.data, w.bytes());
    stream->stamp(&stamps[0]);
    for (int round = 1; round <= rounds; ++round) {
      linear->forward(*stream, x, w, Tensor{}, y, workspace);
      stream->stamp(&stamps[static_cast<size_t>(round)]);
    }
    stream->synchronize();
  }
  device.destroy_arena(ArenaTag::workspace);
  double best = stamps[2] - stamps[1];
  for (size_t round = 3; round < stamps.size(); ++round)
    best = std::min(best, stamps[round] - stamps[round - 1]);
  return 2.0 * static_cast<double>(extent) * extent * extent / best;
}

}  // namespace penstock
