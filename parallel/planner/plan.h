#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "parallel/planner/layout_scorer.h"
#include "parallel/planner/layout_search.h"
#include "parallel/planner/machine.h"
#include "parallel/planner/rank_memory.h"
#include "parallel/planner/unit_costs.h"
#include "parallel/schedule/measures.h"
#include "parallel/schedule/program.h"

namespace penstock::planner {

/// A micro-batch size that may be taken, and how many of these micro-batches a replica's step has.
struct Workload {
  ModelCosts model;
  int micro_batches = 1;  ///< M
};

/// By what stages are balanced. `measured`: by the step that the simulator predicts; `listed`: given.
enum class CutBy : uint8_t { measured, parameters, flops, layers, listed };
/// "measured", "parameters", "flops", "layers", "listed".
const char* to_string(CutBy cut);

/// What is to be planned: what the job fixes is kept, the rest is chosen.
struct PlanRequest {
  Machine machine;
  std::vector<Workload> workloads;  ///< at least one; all of the same tokens a step
  std::string schedule = "auto";    ///< a schedule's name, "file:<path>", or "auto": all that ranks can run
  int chunks = 0;                   ///< 0: chosen
  int slack = -1;                   ///< warm-up slack; −1: chosen
  CutBy cut = CutBy::measured;
  std::vector<int> listed;  ///< units of each stage, for CutBy::listed
  RecomputeChoice recompute;
  SearchBudget budget;
};

/// What a step is predicted to be. Times in seconds; ratios as shares.
struct Prediction {
  schedule::Measures measures;
  double step = 0;
  double tokens_per_second = 0;  ///< of all replicas
  double micro_batch_latency = 0;
  double idle_ratio = 0;  ///< of the whole step
  double imbalance = 0;   ///< slowest rank's busy time ÷ mean − 1
  int slowest_rank = 0;
  std::vector<RankMemory> memory;  ///< (P)
  int64_t peak_memory = 0;         ///< the most of a rank
  bool fits = true;                ///< every rank its limit
  /// Whether the lowered program was simulated; else the step's graph, which is the same where messages only
  /// delay and the boundary buffers are no bottleneck.
  bool simulated = false;
};

/// Where a step's time goes, by what would be gained without it; the sum is the step.
struct StepParts {
  double work = 0;       ///< mean over the ranks, nothing recomputed
  double recompute = 0;  ///< mean over the ranks
  double imbalance = 0;  ///< of the slowest rank against the mean
  double schedule = 0;   ///< fill, drain and waiting, if messages took no time
  double transfer = 0;   ///< what messages add
  double tail = 0;       ///< reductions, tied sum, optimizer
};

/// A schedule at its best layout, or why it cannot be had.
struct Candidate {
  std::string schedule;
  int chunks = 1;
  int slack = 0;
  size_t workload = 0;  ///< index
  std::string refusal;  ///< not "": nothing below is set
  Layout layout;
  Prediction prediction;
  bool proved = false;  ///< no layout of this schedule is better; only where messages only delay
};

/// The chosen schedule with its stages cut another way.
struct OtherCut {
  CutBy cut = CutBy::layers;
  Layout layout;
  Prediction prediction;
};

/// A stage of the chosen plan, of any copy of the weights. Seconds and bytes for one micro-batch, at its
/// rank's pace.
struct StagePlan {
  int stage = 0;
  int rank = 0;
  int first_unit = 0;
  int units = 0;
  Recompute recompute = Recompute::none;
  schedule::StageCosts times;  ///< R in I
  double recompute_time = 0;   ///< R
  SlotCounts slots;
  int64_t resident_bytes = 0;
  int64_t slot_bytes = 0;  ///< of all its slots
  /// Bytes that `full` would save against `none` in its slots; ≤ 0: recomputation saves nothing here.
  int64_t full_saves = 0;
};

struct Plan {
  Candidate chosen;
  int micro_batches = 1;
  schedule::Schedule schedule;
  /// With these, lower() makes the program that was simulated.
  schedule::Costs costs;
  schedule::LoweringOptions lowering;
  std::vector<StagePlan> stages;
  StepParts parts;
  std::vector<Candidate> schedules;  ///< all that were tried, best first, the chosen one among them
  std::vector<OtherCut> cuts;        ///< by layers, parameters, FLOPs
};

/// Chooses what the request leaves open so that a step takes least time a token within memory. Where nothing
/// fits, the plan that exceeds its limits least (chosen.prediction.fits says so). PartitionError,
/// schedule::ScheduleError or PlanError for what cannot be done, with the numbers.
Plan make_plan(const PlanRequest& request);

/// A request that makes no sense; the message says what was found and expected.
class PlanError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What each unit counts under a cut that looks at the model alone (not measured, not listed).
std::vector<double> cut_weights(const ModelCosts& model, CutBy cut);

}  // namespace penstock::planner
