#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "kernels/transport/clock_alignment.h"
#include "trainer/accounting/accountant.h"
#include "trainer/accounting/record_gathering.h"
#include "trainer/accounting/standstill_watch.h"
#include "trainer/budget_steering.h"
#include "trainer/participant.h"
#include "trainer/rank_context.h"
#include "trainer/run_account.h"
#include "trainer/step_report.h"

namespace penstock {

/// Accounts for every millisecond of every rank in every step. After a step each rank's times leave for the
/// first rank of its pipeline, on a stream of their own; settle() turns them into numbers while the device
/// works on the next step, or at once before a pause. No step waits for it.
class StepAccounting : public Participant {
 public:
  /// Collective. `device`: of the hosts' messages. `clocks` were measured. `step_report` writes what is
  /// found. `steering`: shown every step.
  StepAccounting(const RankContext& context, Device& device, transport::ClockAlignment& clocks,
                 StepReport& step_report, RunAccount& run, BudgetSteering& steering);

  void act(const StepSummary& result, const Decision& decision) override;
  void rearranged() override;
  void rolled_back(int64_t step) override;
  /// Every rank, once the next step is enqueued. Nothing is left to do if the step was settled before.
  void settle();

 private:
  static constexpr int64_t clock_steps = 50;
  static constexpr int64_t memory_steps = 16;

  void take_record(const StepSummary& result, bool pauses);
  void report(std::span<const accounting::StepAccount> accounts);

  RankContext context_;
  StepReport& step_report_;
  RunAccount& run_;
  BudgetSteering& steering_;
  const Clock& clock_;
  transport::ClockAlignment& clocks_;
  accounting::StandstillWatch standstills_;
  accounting::RecordGathering gathering_;
  std::unique_ptr<accounting::Accountant> accountant_;  ///< where the pipeline's records come together
  std::optional<double> step_end_;                      ///< of the step before, on rank 0's clock
  int64_t taken_ = 0;                                   ///< steps
  bool travelling_ = false;
  bool follows_ = false;  ///< of the record that travels, if steps overlap: it overlaps with the step before
  bool drains_ = true;    ///< and none overlaps with it
};

}  // namespace penstock
