#pragma once

#include "data/data_section.h"
#include "kernels/device/cuda_section.h"
#include "kernels/transport/comm_section.h"
#include "model/learning_rate_section.h"
#include "model/model_section.h"
#include "model/optimizer_section.h"
#include "model/precision_section.h"
#include "model/recompute_section.h"
#include "parallel/planner/parallel_section.h"
#include "trainer/job/batch_section.h"
#include "trainer/job/bubble_budget_section.h"
#include "trainer/job/checkpoint_section.h"
#include "trainer/job/evaluation_section.h"
#include "trainer/job/log_section.h"
#include "trainer/job/loss_scaling_section.h"
#include "trainer/job/numerics_section.h"
#include "trainer/job/run_section.h"
#include "trainer/job/trace_section.h"
#include "trainer/job/watchdog_section.h"

namespace penstock {

/// Everything that one run is told, section by section, as a job file writes it.
///
/// A section describes each of its keys once: `v.key("name", member)` starts a description, calls such as
/// `at_least(1)` refine it, and `help("…")`, always last, completes it. The member's initial value is the
/// default.
struct Job {
  RunSection run;
  ModelSection model;
  DataSection data;
  BatchSection batch;
  PrecisionSection precision;
  LossScalingSection loss_scaling;
  ParallelSection parallel;
  CommSection comm;
  RecomputeSection recompute;
  OptimizerSection optimizer;
  LearningRateSection learning_rate;
  EvaluationSection evaluation;
  CheckpointSection checkpoint;
  NumericsSection numerics;
  BubbleBudgetSection bubble_budget;
  LogSection log;
  TraceSection trace;
  WatchdogSection watchdog;
  CudaSection cuda;

  bool operator==(const Job&) const = default;

  /// Micro-batches of one replica in one step. Exact after the job was checked.
  int64_t micro_batches() const { return batch.global / (batch.micro * parallel.data); }

  template <class Visitor>
  void describe(Visitor& v) {
    v.section("run", run);
    v.section("model", model);
    v.section("data", data);
    v.section("batch", batch);
    v.section("precision", precision);
    v.section("loss_scaling", loss_scaling);
    v.section("parallel", parallel);
    v.section("comm", comm);
    v.section("recompute", recompute);
    v.section("optimizer", optimizer);
    v.section("learning_rate", learning_rate);
    v.section("evaluation", evaluation);
    v.section("checkpoint", checkpoint);
    v.section("numerics", numerics);
    v.section("bubble_budget", bubble_budget);
    v.section("log", log);
    v.section("trace", trace);
    v.section("watchdog", watchdog);
    v.section("cuda", cuda);
  }
};

}  // namespace penstock
