#pragma once

#include <cstdint>
#include <vector>

#include "kernels/transport/communicator.h"
#include "model/rank_model.h"
#include "parallel/planner/parallel_section.h"
#include "parallel/runtime/model_stage.h"

namespace penstock::runtime {

/// How gradients of replicas are summed.
struct ReductionOptions {
  int replicas = 1;
  double bucket_mib = 64;
  GradientSum sum = GradientSum::ordered;
  /// fp32; bf16: every contribution, and the sum, is rounded on its way. The additions are fp32.
  DType wire = DType::fp32;
};

/// What a rank needs for it in device memory; nothing for one replica.
std::vector<model::PlannedAllocation> reduction_memory(const model::RankConfig& config,
                                                       const ReductionOptions& options);

/// Sums the gradients of a rank's units over its replicas, bucket by bucket, unit by unit as they are done.
///
/// `ordered`: replica d owns the d-th slice of a bucket. It receives everybody's, adds them in replica order
/// in fp32, and the sums are gathered: as many bytes as a ring, and an element's bits depend neither on
/// buckets nor on who owns it (contract C1 d). `library`: the transport's all_reduce.
class GradientReducer {
 public:
  /// `rank`'s configuration has reduction_memory(). `replicas`: in replica order.
  GradientReducer(model::RankModel& rank, transport::Communicator& replicas, const ReductionOptions& options);

  /// Enqueues the sums of the stage's units, last unit first, each behind its unit_done().
  void reduce(Stream& stream, const ModelStage& stage, int begin, int end);

 private:
  struct Slice {
    int64_t begin = 0;
    int64_t count = 0;
  };
  /// Of a bucket of `elements`, possibly empty.
  Slice slice(int64_t elements, int replica) const;
  void reduce_bucket(Stream& stream, const Tensor& gradients);
  /// Adds the parts that were received and our own.
  void sum_fp32(Stream& stream, const Tensor& own);
  void sum_narrow(Stream& stream, const Tensor& own);
  /// The part of `replica` that was received, `elements` long, in the wire's dtype.
  Tensor received(int replica, int64_t elements) const;

  model::RankModel& rank_;
  transport::Communicator& replicas_;
  ReductionOptions options_;
  int64_t bucket_;   ///< elements, at most
  int64_t most_;     ///< of a slice
  Tensor outgoing_;  ///< (bucket) in the wire's dtype; narrow wires only
  Tensor received_;  ///< (replicas, slice) in the wire's dtype
  Tensor sum_;       ///< (2, slice) fp32; narrow wires only
  std::vector<transport::Message> messages_;
};

}  // namespace penstock::runtime
