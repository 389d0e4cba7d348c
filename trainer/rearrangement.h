#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer.h"
#include "kernels/transport/world.h"
#include "parallel/runtime/pipeline_engine.h"
#include "trainer/backend.h"
#include "trainer/budget/arrangement.h"
#include "trainer/corpus.h"
#include "trainer/job/job.h"
#include "trainer/memory_report.h"
#include "trainer/step_batches.h"

namespace penstock {

/// Called on every rank while a run is rearranged: "build" before the new arrangement's memory is taken,
/// "move" before its units come, "moved" before the old one is given up. What it throws is that rank's
/// failure.
using RearrangementHook = std::function<void(int rank, std::string_view phase)>;

/// Changes how a run is arranged, between two of its steps. The new stages are built beside the old ones,
/// units are copied through the transport, and when every rank has all of its own, the old ones are given up.
/// Whatever fails before that, on whichever rank, leaves the old ones as they were, and every rank knows why.
class Rearrangement {
 public:
  /// All of it outlives this.
  struct Parts {
    Job& job;          ///< decided; as it is arranged now
    const Job& asked;  ///< as it was written
    Backend& backend;
    transport::World& world;
    std::unique_ptr<runtime::PipelineEngine>& engine;
    Corpus& corpus;
    const data::Tokenizer* tokenizer;
    StepBatches& batches;
    MemoryReport& memory;  ///< of the arrangement that runs
  };
  /// `costs`: as in the request of the plan that runs. `sizes`: micro_batch_sizes() of the job as it began.
  Rearrangement(const Parts& parts, std::optional<planner::ModelCosts> costs, std::vector<int64_t> sizes,
                RearrangementHook hook);

  struct Outcome {
    std::string refusal;  ///< "": it is done
    double seconds = 0;
    int64_t moved_bytes = 0;  ///< between ranks
  };
  /// Collective. DeviceError where the world was stopped: a rank is gone.
  Outcome carry_out(const budget::Arrangement& arrangement);

  /// Bytes of each pipeline rank that another arrangement may take beside the one that runs.
  std::vector<int64_t> room() const;

 private:
  struct Next;
  /// What is wrong on this rank; "" where `work` ended well.
  template <class Work>
  std::string failure_of(Work&& work) const;
  /// The first rank's failure, if any rank has one, with the rank's name. Collective.
  std::string agreed(const std::string& failure) const;
  void prepare(const budget::Arrangement& arrangement, Next& next);
  void build(runtime::Communicators communicators, Next& next);
  void take(Next& next);
  void announce(std::string_view phase) const;

  Parts parts_;
  std::optional<planner::ModelCosts> costs_;
  std::vector<int64_t> sizes_;
  RearrangementHook hook_;
};

}  // namespace penstock
