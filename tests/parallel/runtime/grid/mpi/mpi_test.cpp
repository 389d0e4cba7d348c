// Contract C1 over its grid, ranks as processes: what every rank of an MPI world trains is, bit by bit, what
// one rank trains (or its replicas without a pipeline). All points whose layout has as many ranks as the
// world.
//   test_parallel_runtime_grid_mpi [--synchronous] [--whole]
#include <array>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "kernels/transport/mpi_world.h"
#include "tests/parallel/runtime/grid/grid.h"

namespace penstock::testing {
namespace {

// CBOR keeps every bit of floats and doubles.
std::string pack(const Result& result) {
  const nlohmann::json json{
      {"losses", result.losses}, {"norms", result.norms}, {"parameters", result.parameters}};
  std::string bytes;
  nlohmann::json::to_cbor(json, bytes);
  return bytes;
}

Result unpack(const std::string& bytes) {
  const nlohmann::json json = nlohmann::json::from_cbor(bytes);
  Result result;
  result.losses = json.at("losses").get<std::vector<double>>();
  result.norms = json.at("norms").get<std::vector<double>>();
  result.parameters = json.at("parameters").get<Values>();
  return result;
}

/// Rank 0 runs the references.
Result reference_from_rank_0(transport::World& world, const Job& reference) {
  return unpack(world.broadcast(world.rank() == 0 ? pack(run_reference(reference)) : "", 0));
}

bool failed_anywhere(transport::World& world) {
  std::array<int64_t, 1> failed{::testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed() ? 1 : 0};
  world.all_reduce(failed, transport::Reduction::maximum);
  return failed[0] != 0;
}

bool run(transport::World& world, bool whole) {
  References references([&](const Job& reference) { return reference_from_rank_0(world, reference); });
  const auto fits = [&](const GridLayout& layout) { return layout.ranks() == world.size(); };
  std::vector<Point> points = whole ? all_points(fits, false) : pairwise_points(Kind::one_copy, fits);
  EXPECT_GE(points.size(), 4 * grid_values(Kind::one_copy)[Axis::schedule].size());
  for (const Kind kind : {Kind::two_copies, Kind::two_versions, Kind::narrow_wires}) {
    if (kind == Kind::narrow_wires && !whole) continue;
    const std::vector<Point> more = pairwise_points(kind, fits);
    points.insert(points.end(), more.begin(), more.end());
  }
  for (const Point& point : points) {
    SCOPED_TRACE(name_of(point));
    const Job job = job_of(point, whole ? 20 : 3);
    const Result& expected = references.of(job);
    run_rank(job, world, [&](runtime::PipelineEngine& engine, transport::World&) {
      expect_part_of(training_of(job)(job, engine), expected);
    });
  }
  if (world.rank() == 0) std::printf("%zu points on %d processes\n", points.size(), world.size());
  return !failed_anywhere(world);
}

int run(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  transport::MpiOptions options;
  bool whole = false;
  for (const std::string_view argument : std::span(argv, static_cast<size_t>(argc)).subspan(1)) {
    if (argument == "--synchronous") {
      options.synchronous_sends = true;
    } else if (argument == "--whole") {
      whole = true;
    } else {
      std::fprintf(stderr, "unknown argument %s\n", std::string(argument).c_str());
      return 2;
    }
  }
  return run(*transport::make_mpi_world(options), whole) ? 0 : 1;
}

}  // namespace
}  // namespace penstock::testing

int main(int argc, char** argv) {
  try {
    return penstock::testing::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
