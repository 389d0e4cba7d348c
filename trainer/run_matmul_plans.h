#pragma once

#include <string>

#include "kernels/transport/world.h"
#include "parallel/runtime/pipeline_plan.h"
#include "trainer/backend.h"
#include "trainer/checkpoint/manifest.h"
#include "trainer/run_folder.h"
#include "trainer/run_reports.h"

namespace penstock {

/// The checkpoint's entry of Manifest::state.
inline constexpr const char* matmul_plans_state = "matmul_plans";

/// How the run computes its matrix products, where the backend has a choice: those of the checkpoint that it
/// goes on from (`from`, null: none), and by rank 0's choice what is not there, or all, with a warning, if
/// they are of another library, driver or device. The same on every rank from here on: collective, before
/// anything that runs is planned. Rank 0 notes it and writes RunPaths::matmul_plans(). Returns what
/// checkpoints keep; empty where there is no choice.
std::string settle_matmul_plans(Backend& backend, const runtime::PipelinePlan& plan,
                                const checkpoint::Manifest* from, transport::World& world,
                                const RunPaths& paths, RunReports& reports);

/// For evaluating and generating: the checkpoint's, where they can be used here. "", or why not.
std::string adopt_matmul_plans(Backend& backend, const checkpoint::Manifest& from);

}  // namespace penstock
