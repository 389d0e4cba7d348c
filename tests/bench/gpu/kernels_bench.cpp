// bench_kernels [--tiny] [--json FILE]: what every kernel reaches on a GPU, as a share of a large copy or a
// large product that are measured in the same run.
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tests/bench/gpu/gpu_bench.h"

int main(int argc, char** argv) try {
  using namespace penstock::bench;
  CLI::App app{"What every kernel reaches on a GPU"};
  bool tiny = false;
  std::string file;
  app.add_flag("--tiny", tiny, "small shapes: a rehearsal");
  app.add_option("--json", file, "also write the table there");
  CLI11_PARSE(app, argc, argv);
  GpuBench bench(tiny);
  measure_memory_kernels(bench);
  measure_optimizer_and_loss(bench);
  measure_products(bench);
  measure_attention(bench);
  if (!file.empty()) {
    std::ofstream out(file);
    out << bench.result().dump(1) << '\n';
    if (!out.flush()) throw std::runtime_error("writing " + file + " failed");
  }
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "bench_kernels: {}\n", error.what());
  return 1;
}
