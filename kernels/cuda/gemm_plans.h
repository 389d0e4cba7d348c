#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/device/dtype.h"

namespace penstock::cuda {

/// One matrix product y (M,N) = a (M,K) · b (K,N), rows contiguous, sums in fp32.
struct GemmShape {
  int64_t rows = 0;     ///< M
  int64_t columns = 0;  ///< N
  int64_t depth = 0;    ///< K
  DType in = DType::fp32;
  DType out = DType::fp32;
  bool a_transposed = false;  ///< a is stored (K,M)
  bool b_transposed = false;  ///< b is stored (N,K)
  bool bias = false;          ///< adds bias (N), fp32, to every row
  bool accumulate = false;    ///< y += a · b
  bool tf32 = false;          ///< fp32 inputs are rounded to TF32 first

  // clang-tidy 14 takes the 0 that orderings are compared with for a pointer.
  auto operator<=>(const GemmShape&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// "bf16 (128, 768) = bf16 (128, 3072) · (768, 3072)ᵀ + bias".
std::string to_string(const GemmShape& shape);

/// How cuBLASLt computes one shape. The numbers behind `algorithm` are read from it, for people.
struct GemmPlan {
  std::array<uint64_t, 8> algorithm{};  ///< cublasLtMatmulAlgo_t, opaque
  uint64_t workspace_bytes = 0;
  bool bias_in_epilogue = true;  ///< false: no algorithm adds it, a kernel of ours does

  int64_t id = 0;
  int64_t tile = 0;
  int64_t stages = 0;
  int64_t split_k = 1;
  int64_t reduction = 0;
  int64_t swizzle = 0;
  int64_t custom = 0;
  int64_t inner_shape = 0;
  int64_t cluster = 0;
  double seconds = 0;  ///< of one run when it was chosen; 0: chosen by the library's heuristics

  bool operator==(const GemmPlan&) const = default;
};

/// "algorithm 66, tile 20, stages 35, cluster 3, 0 bytes of workspace, 0.113 ms".
std::string to_string(const GemmPlan& plan);

/// What algorithms belong to: elsewhere they may not run, or give other bits.
struct GemmOrigin {
  uint64_t library_version = 0;  ///< cublasLtGetVersion()
  uint64_t driver_version = 0;   ///< cudaDriverGetVersion()
  std::string device;            ///< Device::description()

  bool operator==(const GemmOrigin&) const = default;
};
std::string to_string(const GemmOrigin& origin);

/// The plan of every product of a run. Chosen once: all ranks, and whoever resumes the run, use the same, so
/// that equal shapes have equal bits (contract C1).
class GemmPlans {
 public:
  using Table = std::map<GemmShape, GemmPlan>;

  explicit GemmPlans(GemmOrigin origin) : origin_(std::move(origin)) {}

  const GemmOrigin& origin() const { return origin_; }
  const Table& table() const { return table_; }
  /// Null if the table has none.
  const GemmPlan* find(const GemmShape& shape) const;
  void insert(const GemmShape& shape, const GemmPlan& plan) { table_[shape] = plan; }

  /// From now on a missing shape is an error, and nobody chooses any more.
  void seal() { sealed_ = true; }
  bool sealed() const { return sealed_; }

  /// Takes the plans of a checkpoint over, in place of all that are here. "", or why they cannot be used here
  /// (their origin is another one: the run goes on with new ones, and its bits may change). UsageError once
  /// they are sealed.
  std::string adopt(const GemmPlans& stored);

  /// Every plan of `other`, which replaces all that is here.
  void replace(const GemmPlans& other) { table_ = other.table_; }

  /// JSON: {"cublaslt": version, "driver": version, "device": name, "products": [{shape, plan}, …]}, in a
  /// fixed order.
  std::string to_json() const;
  /// DeviceError that names what is wrong and where.
  static GemmPlans from_json(std::string_view text);

 private:
  GemmOrigin origin_;
  Table table_;
  bool sealed_ = false;
};

/// Hands rank 0's text to every rank of the run: collective, blocks.
using BroadcastText = std::function<void(std::string& text)>;

/// Makes `plans` of all ranks equal to rank 0's and seals them; every rank calls it once, before its own call
/// sites are planned. `plan_everything` runs on rank 0 alone and plans every call site of the whole model.
/// If that fails, all ranks throw: rank 0 its own error, the others a DeviceError with its text. DeviceError
/// also where a rank's library or device is not rank 0's.
void agree_on_plans(GemmPlans& plans, bool is_rank_0, const std::function<void()>& plan_everything,
                    const BroadcastText& broadcast);

}  // namespace penstock::cuda
