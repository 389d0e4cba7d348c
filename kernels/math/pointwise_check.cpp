#include "kernels/math/pointwise_check.h"

#include <fmt/format.h>

#include "kernels/math/check.h"

namespace penstock::math {
namespace {

void check_alike(const ArgumentCheck& check, std::string_view first_name, const Tensor& first,
                 std::string_view second_name, const Tensor& second) {
  check.present(first_name, first, {DType::fp32, DType::bf16, DType::fp16, DType::fp64});
  check.tensor(second_name, second, first.shape, {first.dtype});
}

/// y (N,F) and gate_up (N,2F).
void check_gated(const ArgumentCheck& check, std::string_view name, const Tensor& y, const Tensor& gate_up) {
  check.present(name, y, {DType::fp32, DType::bf16, DType::fp16, DType::fp64});
  if (y.shape.rank != 2) {
    check.fail(fmt::format("{} is {}; expected (N, F)", name, to_string(y.shape)));
  }
  check.tensor("gate_up", gate_up, {y.shape[0], 2 * y.shape[1]}, {y.dtype});
}

}  // namespace

void check_gelu_forward(const Tensor& x, const Tensor& y) {
  check_alike(ArgumentCheck("gelu_forward"), "x", x, "y", y);
}

void check_gelu_backward(const Tensor& dy, const Tensor& x, const Tensor& dx) {
  const ArgumentCheck check("gelu_backward");
  check_alike(check, "x", x, "dy", dy);
  check_alike(check, "x", x, "dx", dx);
}

void check_swiglu_forward(const Tensor& gate_up, const Tensor& y) {
  check_gated(ArgumentCheck("swiglu_forward"), "y", y, gate_up);
}

void check_swiglu_backward(const Tensor& dy, const Tensor& gate_up, const Tensor& dgate_up) {
  const ArgumentCheck check("swiglu_backward");
  check_gated(check, "dy", dy, gate_up);
  check_alike(check, "gate_up", gate_up, "dgate_up", dgate_up);
}

void check_add(const Tensor& a, const Tensor& b, const Tensor& y) {
  const ArgumentCheck check("add");
  check_alike(check, "a", a, "b", b);
  check_alike(check, "a", a, "y", y);
}

void check_convert(const Tensor& src, const Tensor& dst) {
  ArgumentCheck("convert")
      .present("src", src, {DType::fp32, DType::bf16, DType::fp16})
      .tensor("dst", dst, src.shape, {DType::fp32, DType::bf16, DType::fp16})
      .that(src.data != dst.data || src.dtype == dst.dtype, "dst of another type is src's memory");
}

void check_rope(const Tensor& qkv, const Tensor& positions, const Tensor& table, int64_t rotated_heads,
                int64_t head_dim) {
  const ArgumentCheck check("rope");
  check.present("qkv", qkv, {DType::fp32, DType::bf16, DType::fp16, DType::fp64});
  if (head_dim < 2 || head_dim % 2 != 0 || rotated_heads < 0) {
    check.fail(
        fmt::format("head_dim = {}, rotated_heads = {}; expected an even head_dim and no fewer than 0 heads",
                    head_dim, rotated_heads));
  }
  if (qkv.shape.rank != 2 || qkv.shape[1] < rotated_heads * head_dim) {
    check.fail(fmt::format("qkv is {}; expected (N, at least {} heads of {})", to_string(qkv.shape),
                           rotated_heads, head_dim));
  }
  check.tensor("positions", positions, {qkv.shape[0]}, {DType::i32});
  const DType table_dtype = qkv.dtype == DType::fp64 ? DType::fp64 : DType::fp32;
  check.present("table", table, {table_dtype});
  check.tensor("table", table, {table.shape[0], head_dim / 2, 2}, {table_dtype});
}

void check_dropout(const Tensor& x, const Tensor& samples, const StepScalars* scalars,
                   const DropoutSite& site, const Tensor& y) {
  const ArgumentCheck check("dropout");
  check_alike(check, "x", x, "y", y);
  check.present("samples", samples, {DType::i64});
  if (x.shape.rank != 2 || samples.shape.rank != 1 || samples.shape[0] < 1 ||
      x.shape[0] % samples.shape[0] != 0) {
    check.fail(fmt::format("x is {}, samples {}; expected (B T, C) and (B)", to_string(x.shape),
                           to_string(samples.shape)));
  }
  if (!(site.probability >= 0.0F && site.probability < 1.0F)) {
    check.fail(fmt::format("probability = {}; expected at least 0 and less than 1", site.probability));
  }
  if (site.site >= 1U << 24) {
    check.fail(fmt::format("site = {}; expected less than 2^24", site.site));
  }
  check.that(scalars != nullptr, "scalars is absent; expected the step's scalars in device memory");
}

}  // namespace penstock::math
