#pragma once

#include <cstdint>
#include <vector>

#include "kernels/transport/communicator.h"
#include "model/rank_model.h"
#include "parallel/planner/parallel_section.h"
#include "parallel/runtime/gradient_windows.h"
#include "parallel/runtime/model_stage.h"
#include "parallel/schedule/action.h"

namespace penstock::runtime {

/// How gradients of replicas, and of the copies of the weights that each has, are summed.
struct ReductionOptions {
  int replicas = 1;
  int copies = 1;
  double bucket_mib = 64;
  GradientSum sum = GradientSum::ordered;
  /// fp32; bf16, fp16: every contribution, and the sum, is rounded on its way. The additions are fp32.
  DType wire = DType::fp32;
  GradientWindows windows;
  bool sharded = false;  ///< the optimizer: each member needs the sums of what it owns alone

  /// Ranks that sum a unit's gradients.
  int members() const { return replicas * copies; }
  /// Ranks that share an optimizer.
  int shards() const { return sharded ? members() : 1; }
};

/// What a rank needs for it in device memory; nothing for one member.
std::vector<model::PlannedAllocation> reduction_memory(const model::RankConfig& config,
                                                       const ReductionOptions& options);

/// Elements of a unit's flat gradients that are summed at once: a slice for each member, its owner; possibly
/// empty. One after another, unless the optimizer is sharded: then of what each member owns of the unit.
struct ReductionBucket {
  int unit = 0;
  size_t place = 0;  ///< of the unit among the rank's
  std::vector<model::Slice> slices;
  bool weight_half = false;  ///< several windows: it accumulates in W
  int copy = 0;              ///< of the weights, that the rank holds
  int64_t total = 0;         ///< where its total begins

  /// From the first slice's begin to the last one's end: where they are one after another.
  model::Slice whole() const { return {slices.front().begin, slices.back().end}; }
  /// Elements of the longest slice, rounded up so that what follows is aligned in any dtype.
  int64_t stride() const;
};

/// Sums the gradients of a rank's units over the members of its group, bucket by bucket, unit by unit as they
/// are done: over its replicas, or with two copies of the weights over both copies of replica 0, of replica
/// 1, …, as if each copy were a replica of its own.
///
/// `ordered`: member d owns the d-th slice of a bucket. It receives everybody's, adds them in that order in
/// fp32, and the sums are gathered: as many bytes as a ring, and an element's bits depend neither on
/// buckets nor on who owns it (contract C1 d). `library`: the transport's all_reduce.
///
/// With a sharded optimizer a bucket's slices are what its members own (model/shards.h), and their sums stay
/// there: nothing is gathered, and what others own keeps the rank's own part. `library`: reduce_scatter. Sums
/// are rounded as they would be on their way, so that they are those of an optimizer that is not sharded.
///
/// Of several windows each is summed by itself, and the sums are added in fp32, first window first. Until the
/// last the total stays where it was summed (`ordered`: at the slice's owner), and is not rounded; then it is
/// added, and gathered. What accumulates in I and what accumulates in W are summed apart, so that a window of
/// either ends with its own actions, whatever the other has come to.
class GradientReducer {
 public:
  /// `rank`'s configuration has reduction_memory(). `group`: Communicators::replicas.
  GradientReducer(model::RankModel& rank, transport::Communicator& group, const ReductionOptions& options);

  /// Enqueues the sums of units [begin, end) of the stage, last unit first, each behind its unit_done(): of
  /// the last window, with the total.
  void reduce(Stream& stream, const ModelStage& stage, int begin, int end);
  /// The sums of what accumulated in `closing`'s half until it ended its window, which is not the last;
  /// zeroes it.
  void reduce_window(Stream& stream, const ModelStage& stage, int begin, int end,
                     const schedule::Action& closing);

 private:
  /// What becomes of a window's sum: `only` one, or among several.
  enum class Turn { only, first, next, last };
  /// `gradients`: of the whole unit.
  void reduce_bucket(Stream& stream, const Tensor& gradients, const ReductionBucket& bucket, Turn turn);
  void all_reduce(Stream& stream, const Tensor& gradients, const ReductionBucket& bucket, Turn turn);
  /// The library's sum of the slice that we own, in its place.
  void reduce_scatter(Stream& stream, const Tensor& gradients, const ReductionBucket& bucket);
  /// A member's slice as it travels.
  Tensor wire_of(const Tensor& gradients, const ReductionBucket& bucket, int member) const;
  /// Gradients to the wire's dtype, and back.
  void pack(Stream& stream, const Tensor& gradients, const ReductionBucket& bucket);
  void unpack(Stream& stream, const Tensor& gradients, const ReductionBucket& bucket);
  /// The bucket's total becomes the window's sum, or grows by it; at the end, the sum grows by the total.
  void settle(Stream& stream, Turn turn, const Tensor& sum, const ReductionBucket& bucket);
  /// The sum of the parts that were received and our own, fp32.
  Tensor sum_fp32(Stream& stream, const Tensor& own, const ReductionBucket& bucket);
  Tensor sum_narrow(Stream& stream, const Tensor& own, const ReductionBucket& bucket);
  /// The part of a bucket's sum that is added at place `term`: our own, or what was received, in the wire's
  /// dtype.
  Tensor part_of(int term, const Tensor& own, const ReductionBucket& bucket) const;
  /// The part of `member` that was received, `elements` long, in the wire's dtype.
  Tensor received(int member, int64_t elements) const;

  model::RankModel& rank_;
  transport::Communicator& group_;
  ReductionOptions options_;
  int64_t most_;                          ///< elements of a slice
  std::vector<ReductionBucket> buckets_;  ///< last unit first
  Tensor total_;                          ///< fp32: the windows so far, by bucket; several windows only
  Tensor outgoing_;  ///< (bucket) in the wire's dtype: narrow wires, and for reduce_scatter
  Tensor received_;  ///< (members, slice) in the wire's dtype
  Tensor sum_;       ///< (2, slice) fp32; narrow wires only
  std::vector<transport::Message> messages_;
};

}  // namespace penstock::runtime
