#pragma once

#include <optional>
#include <span>
#include <vector>

#include "parallel/schedule/program.h"
#include "parallel/schedule/rolling.h"
#include "trainer/accounting/hold_ups.h"
#include "trainer/accounting/rank_times.h"
#include "trainer/accounting/root_tracing.h"
#include "trainer/accounting/step_account.h"

namespace penstock::accounting {

/// Cuts the time of every rank of a pipeline in a step into its parts. It reads a program and when its
/// instructions ran, measured or simulated, and nothing else. After the first step it allocates nothing.
class Accountant {
 public:
  /// UsageError for a program whose ranks do not fit together, or whose steps overlap (2bw).
  explicit Accountant(const schedule::Program& program);

  /// `ranks`: all of the pipeline, on one clock. `begin`: where the step before ended; without it the step
  /// begins where the first of the ranks began to enqueue. Valid until the next call. UsageError for ranks
  /// whose numbers of instructions are not the program's.
  const StepAccount& account(std::span<const RankTimes> ranks, std::optional<double> begin);

  /// An asynchronous schedule: `rolling` is made of `step`. Only account_overlapping() then.
  Accountant(const schedule::Program& step, const schedule::RollingProgram& rolling);
  /// A step of it, in their order. `follows`: it overlaps with the step before; else `begin` as of account().
  /// `drains`: none follows at once. What is accounted for is each rank's list of the step: from where its
  /// list of the step before ended to where this one ends, with the backwards of the step before that stand
  /// in it; the account's begin and end are the ranks' means.
  const StepAccount& account_overlapping(std::span<const RankTimes> ranks, std::optional<double> begin,
                                         bool follows, bool drains);

  const std::vector<std::vector<int>>& stages_by_rank() const { return stages_by_rank_; }

 private:
  /// An action, and the instructions that it waits for; −1: none.
  struct Work {
    size_t at = 0;  ///< in the rank's list
    schedule::Op op = schedule::Op::forward;
    int stage = 0;
    int micro_batch = 0;
    int receive = -1;   ///< in the rank's list
    int source = -1;    ///< the rank that sends what is received
    int producer = -1;  ///< the action that made it, in the source's list
    int sent = -1;      ///< the send, in the source's list
    /// Ahead of them on their streams: the receive in the rank's list, and the send in the source's.
    int receive_before = -1;
    int source_before = -1;  ///< who sends what that receive receives
    int send_before = -1;
    int destination_before = -1;  ///< whom that send is for
    bool gradient = false;        ///< what is received
    int send = -1;                ///< in the rank's list: holds the buffer that the action writes
    int taken = -1;               ///< the receive that takes it, in the destination's list
    int reduction = -1;           ///< in the rank's list: still reads the gradients that the action adds to
    int gather = -1;              ///< in the rank's list: of the parameters that it is the first to read
    int destination = -1;         ///< of that send
  };
  struct RankWork {
    std::vector<Work> actions;
    size_t instructions = 0;
    int optimizer = -1;
  };
  /// When the inputs of an action were there, by cause.
  struct Evidence {
    double produced = 0;  ///< and its sending enqueued
    double posted = 0;    ///< the receive was enqueued
    double arrived = 0;
    double buffer = 0;
    double reduced = 0;
    double gathered = 0;  ///< parameters of its stage
  };

  /// Fill, drain, agreements, and what is between two steps: idle time that is nobody's in particular.
  struct Common {
    size_t rank = 0;
    double begin = 0;
    double end = 0;
  };

  /// On the compute stream of a rank, in a list of steps that overlap.
  struct Item {
    bool before = false;  ///< of the step before
    int action = -1;      ///< in RankWork::actions; −1: the optimizer step
  };
  using Items = std::vector<Item>;

  void begin_account(std::span<const RankTimes> ranks);
  void begin_overlapping(std::span<const RankTimes> ranks, std::optional<double> begin);
  /// From `at` on; where the last of them ends.
  double cut_items(std::span<const RankTimes> ranks, size_t rank, const Items& items, double at, bool opens);
  void count_action(const InstructionTimes& at, const Work& work, RankAccount& rank);
  Evidence evidence(std::span<const RankTimes> ranks, size_t rank, const Work& work) const;
  void count_actions(const RankTimes& times, size_t rank);
  void find_slow_actions(std::span<const RankTimes> ranks);
  /// `gathered`: when the parameters that it reads were.
  void cut_ready(std::span<const RankTimes> ranks, size_t rank, double ready, double start, double enqueued,
                 double gathered, PartSeconds& parts, std::span<const int> met = {});
  void cut_common(size_t rank, Part part, double begin, double end);
  /// Who was held up while others had no input to wait for, or before their first: is behind that.
  void blame_for_common();
  void cut_wait(size_t rank, const Work& work, Part part, double begin, double produced);
  void cut_transfer(std::span<const RankTimes> ranks, size_t rank, const Work& work, bool fill, double begin,
                    double end);
  void cut_buffer(size_t rank, const Work& work, double begin, double taken, double end);
  void cut_fill(std::span<const RankTimes> ranks, size_t rank);
  void cut_gap(std::span<const RankTimes> ranks, size_t rank, const Work& work, double begin);
  void cut_tail(const RankTimes& times, size_t rank);
  void take_out_recompute(const RankTimes& times, size_t rank);
  void measure_latency(std::span<const RankTimes> ranks);

  std::vector<RankWork> ranks_;
  std::vector<int> all_ranks_;
  std::vector<std::vector<int>> stages_by_rank_;
  int blocks_ = 1;
  StepAccount account_;
  HoldUps holds_;
  std::vector<Common> common_;
  RootTracing tracing_;
  std::vector<double> input_seconds_;  ///< by stage: I in the step
  std::vector<double> first_input_;    ///< by stage: its first I
  std::vector<double> latencies_;      ///< by micro-batch
  // Of steps that overlap, by rank: what its lists hold, when the last one began and ended, and the
  // step before.
  std::vector<Items> start_;
  std::vector<Items> follow_;
  std::vector<Items> drain_;
  std::vector<double> begins_;
  std::vector<double> ends_;
  std::vector<RankTimes> before_;
};

}  // namespace penstock::accounting
