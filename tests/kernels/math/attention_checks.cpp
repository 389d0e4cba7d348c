#include "tests/kernels/math/attention_checks.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace penstock::testing {
namespace {

using math::Attention;
using math::AttentionShape;

/// starts (N).
std::vector<double> document_starts(const AttentionShape& shape, int documents) {
  std::vector<double> starts;
  const int64_t length = (shape.tokens + documents - 1) / documents;
  for (int64_t b = 0; b < shape.batch; ++b) {
    for (int64_t t = 0; t < shape.tokens; ++t) {
      // The borders of odd sequences lie elsewhere.
      starts.push_back(static_cast<double>(std::max<int64_t>(0, (t + b) / length * length - b)));
    }
  }
  return starts;
}

int add_starts(Operation& op, const AttentionShape& shape, int documents) {
  if (documents == 0) return -1;
  return op.given("starts", DType::i32, {shape.batch * shape.tokens}, document_starts(shape, documents));
}
Tensor starts_of(Call& call, int starts) {
  return starts < 0 ? Tensor() : call[starts];
}

struct Shapes {
  explicit Shapes(const AttentionShape& shape)
      : qkv{shape.batch * shape.tokens, (shape.heads + 2 * shape.kv_heads) * shape.head_dim},
        out{shape.batch * shape.tokens, shape.heads * shape.head_dim},
        lse{shape.batch, shape.heads, shape.tokens} {}
  Shape qkv;
  Shape out;
  Shape lse;
};

}  // namespace

void check_attention_forward(const Implementations<Attention>& attentions, const AttentionShape& shape,
                             int documents, size_t aligned_to) {
  const Shapes shapes(shape);
  Operation op("attention forward", shape.dtype);
  op.place_at_multiples_of(aligned_to);
  const int qkv = op.input("qkv", shape.dtype, shapes.qkv);
  const int starts = add_starts(op, shape, documents);
  const int out = op.output("out", shape.dtype, shapes.out);
  const int lse = op.output("lse", DType::fp32, shapes.lse);
  std::unique_ptr<math::AttentionPlan> plan;
  op.check(attentions, [&](Attention& attention, Call& call) {
    plan = attention.plan(shape);
    plan->forward(call.stream(), call[qkv], starts_of(call, starts), call[out], call[lse],
                  call.workspace(plan->workspace_bytes()));
    call.stream().synchronize();
  });
}

void check_attention_backward(const Implementations<Attention>& attentions, const AttentionShape& shape,
                              int documents, size_t aligned_to) {
  const Shapes shapes(shape);
  // out and lse belong to qkv: the reference computes them first.
  Operation first("attention forward", shape.dtype);
  const int first_qkv = first.input("qkv", shape.dtype, shapes.qkv);
  const int first_starts = add_starts(first, shape, documents);
  const int first_out = first.output("out", shape.dtype, shapes.out);
  const int first_lse = first.output("lse", DType::fp32, shapes.lse);
  std::unique_ptr<math::AttentionPlan> plan;
  const auto forward = [&](Attention& attention, Call& call) {
    plan = attention.plan(shape);
    plan->forward(call.stream(), call[first_qkv], starts_of(call, first_starts), call[first_out],
                  call[first_lse], {});
    call.stream().synchronize();
  };
  Operation op("attention backward", shape.dtype);
  op.place_at_multiples_of(aligned_to);
  const int dout = op.input("dout", shape.dtype, shapes.out);
  const int qkv = op.given("qkv", shape.dtype, shapes.qkv,
                           first.reference_result(attentions, first_qkv, [](Attention&, Call&) {}));
  const int starts = add_starts(op, shape, documents);
  const int out =
      op.given("out", shape.dtype, shapes.out, first.reference_result(attentions, first_out, forward));
  const int lse =
      op.given("lse", DType::fp32, shapes.lse, first.reference_result(attentions, first_lse, forward));
  const int dqkv = op.output("dqkv", shape.dtype, shapes.qkv);
  op.check(attentions, [&](Attention& attention, Call& call) {
    plan = attention.plan(shape);
    plan->backward(call.stream(), call[dout], call[qkv], starts_of(call, starts), call[out], call[lse],
                   call[dqkv], call.workspace(plan->workspace_bytes()));
    call.stream().synchronize();
  });
}

}  // namespace penstock::testing
