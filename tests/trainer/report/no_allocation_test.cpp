// What runs every step must not allocate once it has run a step.

#include <gtest/gtest.h>

#include "tests/allocation_count/allocation_count.h"
#include "tests/trainer/report/report_folder.h"
#include "trainer/report/metrics_writer.h"
#include "trainer/report/step_console.h"
#include "trainer/report/tensorboard_writer.h"

namespace penstock::report {
namespace {

TEST(Reports, AllocateNothingAfterTheFirstStep) {
  const ReportFolder folder;
  MetricsWriter metrics_file(folder / "metrics.jsonl", 1, {});
  TensorBoardWriter tensorboard_file(folder / "t", 1, {});
  std::FILE* stream = std::tmpfile();
  ConsoleOptions options;
  options.total_steps = 1000;
  options.stream = stream;
  {
    StepConsole console(options);
    StepMetrics metrics;
    metrics.loss = 1.0 / 3;
    metrics.grad_norm = 1.0 / 7;
    metrics.learning_rate = 1e-4 / 3;
    metrics.tokens_per_second = 1e5 / 3;
    metrics.step_ms = 1e5 / 3;
    metrics.memory_peak_bytes = 1e10;
    metrics.matmul_share = 0.5;
    metrics.bubble_ratio = 0.25;
    metrics.ranks.resize(4);
    for (RankMetrics& rank : metrics.ranks) rank.add("forward_ms", 1e4 / 3);
    int64_t before = 0;
    for (int64_t step = 1; step <= 100; ++step) {
      metrics.step = step;
      metrics.tokens = step * 123456789;
      metrics_file.write(metrics);
      tensorboard_file.write(metrics);
      console.step(metrics);
      if (step == 10) before = allocations();
    }
    EXPECT_EQ(allocations(), before);
    EXPECT_GT(before, 0);
  }
  std::fclose(stream);
}

}  // namespace
}  // namespace penstock::report
