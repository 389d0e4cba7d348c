#include "kernels/cpu/onednn.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.hpp>
#include <oneapi/dnnl/dnnl_debug.h>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/thread_scope.h"
#include "kernels/device/arena.h"
#include "kernels/device/error.h"

namespace penstock::cpu {
namespace {

dnnl::engine& engine() {
  static dnnl::engine processor(dnnl::engine::kind::cpu, 0);
  return processor;
}

/// Held where primitives are made and dropped. All ranks of a process share the library's cache of them,
/// whose own locks thread sanitizer cannot see.
std::mutex& planning() {
  static std::mutex mutex;
  return mutex;
}

dnnl::memory::data_type type_of(DType dtype) {
  switch (dtype) {
    case DType::fp32:
      return dnnl::memory::data_type::f32;
    case DType::bf16:
      return dnnl::memory::data_type::bf16;
    default:
      throw UsageError(fmt::format("oneDNN is given fp32 and bf16, not {}", name_of(dtype)));
  }
}

/// A matrix stored row by row, seen as itself or as its transpose; `row`: elements from a stored row to the
/// next.
dnnl::memory::desc matrix(int64_t rows, int64_t columns, DType dtype, bool transposed, int64_t row) {
  return {
      {rows, columns}, type_of(dtype), transposed ? dnnl::memory::dims{1, row} : dnnl::memory::dims{row, 1}};
}
dnnl::memory::desc matrix(int64_t rows, int64_t columns, DType dtype) {
  return matrix(rows, columns, dtype, false, columns);
}

std::string describe(const ProductShape& shape) {
  return fmt::format("{} matrix product ({}, {}) x ({}, {}) into {}", name_of(shape.in), shape.rows,
                     shape.depth, shape.depth, shape.columns, name_of(shape.out));
}

/// `shape` is a piece of a product of depth `whole`.
dnnl::matmul::primitive_desc describe_primitive(const ProductShape& shape, int64_t whole) {
  const dnnl::memory::desc a =
      matrix(shape.rows, shape.depth, shape.in, shape.a_transposed, shape.a_transposed ? shape.rows : whole);
  const dnnl::memory::desc b = matrix(shape.depth, shape.columns, shape.in, shape.b_transposed,
                                      shape.b_transposed ? whole : shape.columns);
  const dnnl::memory::desc y = matrix(shape.rows, shape.columns, shape.out);
  const dnnl::memory::desc bias = shape.bias ? matrix(1, shape.columns, DType::fp32) : dnnl::memory::desc();
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (shape.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
#if DNNL_VERSION_MAJOR >= 3
  return {engine(), a, b, bias, y, attributes};
#else
  return {dnnl::matmul::desc(a, b, bias, y), attributes, engine()};
#endif
}

/// A primitive with its memory objects, whose handles are set at each run.
class Primitive {
 public:
  Primitive(const ProductShape& shape, int64_t whole_depth)
      : description_(describe_primitive(shape, whole_depth)),
        primitive_(description_),
        shape_(shape),
        workspace_bytes_(description_.scratchpad_desc().get_size()) {
    add(DNNL_ARG_SRC, description_.src_desc());
    add(DNNL_ARG_WEIGHTS, description_.weights_desc());
    add(DNNL_ARG_DST, description_.dst_desc());
    add(DNNL_ARG_SCRATCHPAD, description_.scratchpad_desc());
    if (shape.bias) add(DNNL_ARG_BIAS, matrix(1, shape.columns, DType::fp32));
  }

  // Kept, because asking the library allocates, and every call checks its workspace.
  size_t workspace_bytes() const { return workspace_bytes_; }

  void run(dnnl::stream& stream, const void* a, const void* b, const void* bias, void* y, void* workspace) {
    const std::array<const void*, 5> handles = {a, b, y, workspace, bias};
    for (size_t i = 0; i < count_; ++i) memories_[i].set_data_handle(const_cast<void*>(handles[i]));
    // The C interface takes an array; the C++ one would build a map and a vector at each run.
    const dnnl_status_t status =
        dnnl_primitive_execute(primitive_.get(), stream.get(), static_cast<int>(count_), arguments_.data());
    if (status != dnnl_success) {
      throw DeviceError(fmt::format("{}: oneDNN returned \"{}\"", describe(shape_), dnnl_status2str(status)));
    }
  }

 private:
  void add(int argument, const dnnl::memory::desc& description) {
    memories_[count_] = dnnl::memory(description, engine(), DNNL_MEMORY_NONE);
    arguments_[count_] = {argument, memories_[count_].get()};
    ++count_;
  }

  dnnl::matmul::primitive_desc description_;
  dnnl::matmul primitive_;
  ProductShape shape_;
  size_t workspace_bytes_;
  std::array<dnnl::memory, 5> memories_;
  std::array<dnnl_exec_arg_t, 5> arguments_{};
  size_t count_ = 0;
};

/// Depth of the pieces that a product's sums run in, one after the other.
int64_t piece_depth(const ProductShape& shape) {
  if (shape.a_transposed) return std::min(shape.depth, Product::depth_block);
  const int64_t pieces = (shape.depth + Product::longest_depth - 1) / Product::longest_depth;
  if (pieces <= 1) return shape.depth;
  constexpr int64_t multiple = 64;
  return ((shape.depth + pieces - 1) / pieces + multiple - 1) / multiple * multiple;
}

/// A product as it is computed: fp16 in fp32, and sums of several pieces too.
ProductShape computed(ProductShape shape) {
  const bool pieces = piece_depth(shape) < shape.depth;
  if (shape.out == DType::fp16 || pieces) shape.out = DType::fp32;
  if (shape.in == DType::fp16) shape.in = DType::fp32;
  return shape;
}

/// Where the fp32 copies of narrower operands lie in the workspace, before the primitives' own.
struct WideOperands {
  explicit WideOperands(const ProductShape& shape)
      : in(computed(shape).in != shape.in),
        out(computed(shape).out != shape.out),
        y(shape.out),
        a_elements(shape.rows * shape.depth),
        b_elements(shape.depth * shape.columns),
        y_elements(shape.rows * shape.columns),
        b_place(in ? bytes_of(a_elements) : 0),
        y_place(b_place + (in ? bytes_of(b_elements) : 0)),
        end(y_place + (out ? bytes_of(y_elements) : 0)) {}

  static size_t bytes_of(int64_t elements) { return aligned(static_cast<size_t>(elements) * sizeof(float)); }

  bool in;   ///< whether a and b are widened
  bool out;  ///< whether y is rounded
  DType y;   ///< to what
  int64_t a_elements, b_elements, y_elements;
  size_t b_place, y_place, end;
};

}  // namespace

struct Product::Impl {
  explicit Impl(const ProductShape& whole)
      : shape(computed(whole)), wide(whole), piece(piece_depth(whole)), stream(engine()) {
    ProductShape part = shape;
    part.depth = piece;
    first.emplace(part, shape.depth);
    part.accumulate = true;
    part.bias = false;
    if (!shape.accumulate && shape.depth >= 2 * piece) next.emplace(part, shape.depth);
    part.depth = shape.depth % piece;
    if (part.depth > 0) last.emplace(part, shape.depth);
  }

  void run(const void* a, const void* b, const void* bias, void* y, void* workspace);

  ProductShape shape;
  WideOperands wide;
  int64_t piece;
  dnnl::stream stream;
  std::optional<Primitive> first;  ///< the whole product, or its first piece
  std::optional<Primitive> next;   ///< the whole pieces behind it; absent: `first`, which accumulates
  std::optional<Primitive> last;   ///< the shorter piece that remains
};

Product::Product(const ProductShape& shape, int threads) {
  const ThreadScope scope(threads);
  const std::lock_guard lock(planning());
  try {
    impl_ = std::make_unique<Impl>(shape);
  } catch (const dnnl::error& error) {
    throw DeviceError(fmt::format("{}: oneDNN {}.{}.{} cannot plan it: {}", describe(shape),
                                  DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, DNNL_VERSION_PATCH, error.what()));
  }
}

Product::~Product() {
  const std::lock_guard lock(planning());
  impl_.reset();
}

Product::Product(Product&&) noexcept = default;

size_t Product::workspace_bytes() const {
  size_t bytes = 0;
  for (const auto* primitive : {&impl_->first, &impl_->next, &impl_->last}) {
    if (*primitive) bytes = std::max(bytes, (*primitive)->workspace_bytes());
  }
  return impl_->wide.end + bytes;
}

void Product::run(const void* a, const void* b, const void* bias, void* y, void* workspace) {
  const WideOperands& wide = impl_->wide;
  auto* const memory = static_cast<char*>(workspace);
  const auto at = [memory](size_t place) { return reinterpret_cast<float*>(memory + place); };
  if (wide.in) {
    convert_elements(static_cast<const float16*>(a), wide.a_elements, at(0));
    convert_elements(static_cast<const float16*>(b), wide.b_elements, at(wide.b_place));
    a = at(0);
    b = at(wide.b_place);
  }
  impl_->run(a, b, bias, wide.out ? at(wide.y_place) : y, memory + wide.end);
  if (!wide.out) return;
  math::with_element(
      wide.y, [&]<class T>(T) { convert_elements(at(wide.y_place), wide.y_elements, static_cast<T*>(y)); });
}

void Product::Impl::run(const void* a, const void* b, const void* bias, void* y, void* workspace) {
  const auto* a_bytes = static_cast<const char*>(a);
  const auto* b_bytes = static_cast<const char*>(b);
  const auto element = static_cast<int64_t>(size_of(shape.in));
  // Element (0, k) of a and (k, 0) of b as stored: a row further, or an element.
  const int64_t a_step = element * (shape.a_transposed ? shape.rows : 1);
  const int64_t b_step = element * (shape.b_transposed ? 1 : shape.columns);
  for (int64_t k = 0; k < shape.depth; k += piece) {
    const bool whole = k + piece <= shape.depth;
    Primitive& behind = next ? *next : *first;
    Primitive& primitive = k == 0 ? *first : whole ? behind : *last;
    primitive.run(stream, a_bytes + k * a_step, b_bytes + k * b_step, bias, y, workspace);
  }
}

}  // namespace penstock::cpu
