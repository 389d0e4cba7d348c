#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/device/dtype.h"

namespace penstock::cpu {

/// One matrix product y (M,N) = a (M,K) · b (K,N), sums in fp32. fp16 is emulated: its operands are widened,
/// multiplied as fp32, and y is rounded.
struct ProductShape {
  int64_t rows = 0;     ///< M
  int64_t columns = 0;  ///< N
  int64_t depth = 0;    ///< K
  DType in = DType::fp32;
  DType out = DType::fp32;
  bool a_transposed = false;  ///< a is stored (K,M)
  bool b_transposed = false;  ///< b is stored (N,K)
  bool bias = false;          ///< adds bias (N), fp32, to every row
  bool accumulate = false;    ///< y += a · b
};

/// A product planned once and run many times; the only file that knows oneDNN (2.6 and 3.x) is its source.
///
/// The bits of y depend on the shape alone, not on the number of threads or the place in memory (contract
/// C1): oneDNN splits long sums among threads, so those run as pieces, in ascending order, with a rounding to
/// fp32 between them: of `depth_block` where `a` is transposed, else of at most about `longest_depth`, which
/// is also a fifth faster at the depth of a vocabulary.
class Product {
 public:
  static constexpr int64_t depth_block = 1024;
  static constexpr int64_t longest_depth = 16384;

  /// `threads`: what the stream it will run on has. DeviceError if oneDNN has no such product.
  Product(const ProductShape& shape, int threads);
  ~Product();
  Product(Product&&) noexcept;
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  /// Scratch memory of run().
  size_t workspace_bytes() const;
  /// Computes y in the calling thread and its OpenMP threads; one call at a time. `bias` and `workspace` may
  /// be null where they have no bytes. Allocates nothing of ours.
  void run(const void* a, const void* b, const void* bias, void* y, void* workspace);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::cpu
