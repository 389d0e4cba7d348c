#include "model/call_sites.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "kernels/device/error.h"
#include "model/unit_id.h"

namespace penstock::model {

namespace {

void require(const math::Support& support, std::string_view what, DType dtype) {
  if (!support) {
    throw UsageError(fmt::format("{} in {} is not supported: {}", what, name_of(dtype), support.reason));
  }
}

bool has_kind(const RankConfig& config, UnitKind kind) {
  for (int unit = 0; unit < unit_count(config.model); ++unit) {
    if (has_unit(config, unit) && unit_at(config.model, unit).kind == kind) return true;
  }
  return false;
}

std::unique_ptr<math::Linear> linear(math::Math& math, const RankConfig& config, std::string_view what,
                                     int64_t in, int64_t out, bool bias) {
  const math::LinearShape shape{config.shape().rows(), in, out, config.compute, bias};
  require(math.gemm->supports(shape), what, config.compute);
  return math.gemm->plan_linear(shape);
}

}  // namespace

size_t CallSites::workspace_bytes() const {
  size_t bytes = 0;
  const auto cover = [&bytes](const auto& plan) {
    if (plan) bytes = std::max(bytes, plan->workspace_bytes());
  };
  cover(qkv);
  cover(attention_out);
  cover(up);
  cover(down);
  cover(attention);
  cover(cached_attention);
  cover(head);
  return bytes;
}

CallSites make_call_sites(math::Math& math, const RankConfig& config) {
  const ModelSection& model = config.model;
  const bool gpt2 = model.family == Family::gpt2;
  const int64_t hidden = model.hidden_size;
  const int64_t attended = model.heads * model.head_dim;
  const int64_t width = attended + 2 * model.kv_heads * model.head_dim;
  require(math.pointwise->supports(config.compute), "element-wise arithmetic", config.compute);
  require(math.norm->supports(config.compute, hidden), "normalisation", config.compute);
  CallSites sites;
  if (has_kind(config, UnitKind::embedding))
    require(math.embedding->supports(config.compute), "embedding", config.compute);
  if (has_kind(config, UnitKind::attention)) {
    sites.qkv = linear(math, config, "the query-key-value projection", hidden, width, model.qkv_bias);
    sites.attention_out = linear(math, config, "the attention output projection", attended, hidden, gpt2);
    const math::AttentionShape shape{config.micro_batch, model.sequence_length, model.heads,
                                     model.kv_heads,     model.head_dim,        config.compute};
    require(math.attention->supports(shape), "attention", config.compute);
    sites.attention = math.attention->plan(shape);
  }
  if (has_kind(config, UnitKind::mlp)) {
    const int64_t inner = model.ffn_hidden_size;
    sites.up = linear(math, config, "the MLP's first projection", hidden, gpt2 ? inner : 2 * inner, gpt2);
    sites.down = linear(math, config, "the MLP's second projection", inner, hidden, gpt2);
  }
  if (has_kind(config, UnitKind::head)) {
    const math::HeadShape shape{config.shape().rows(), hidden, model.padded_vocab_size(), model.vocab_size,
                                config.compute};
    require(math.head->supports(shape), "the head", config.compute);
    sites.head = math.head->plan(shape);
  }
  return sites;
}

CallSites make_pass_sites(math::Math& math, const RankConfig& config, const CacheConfig& cache, size_t pass) {
  const std::vector<int64_t> all = pass_rows(cache);
  const int64_t rows = all[pass];
  const bool of_slots = pass + 1 == all.size();
  const ModelSection& model = config.model;
  const bool gpt2 = model.family == Family::gpt2;
  const int64_t hidden = model.hidden_size;
  const int64_t attended = model.heads * model.head_dim;
  const bool few = rows <= few_rows || of_slots;
  const auto site = [&](std::string_view what, int64_t in, int64_t out, bool bias) {
    const math::LinearShape shape{rows, in, out, config.compute, bias};
    require(math.gemm->supports(shape), what, config.compute);
    return few ? math.gemm->plan_few_rows(shape) : math.gemm->plan_linear(shape);
  };
  CallSites sites;
  if (has_kind(config, UnitKind::attention)) {
    const math::CachedAttentionShape shape{rows,           cache.slots,    cache.positions, model.heads,
                                           model.kv_heads, model.head_dim, config.compute};
    require(math.cached_attention->supports(shape), "attention of kept keys", config.compute);
    sites.cached_attention = math.cached_attention->plan(shape);
    sites.qkv = site("the query-key-value projection", hidden, shape.row_elements(), model.qkv_bias);
    sites.attention_out = site("the attention output projection", attended, hidden, gpt2);
  }
  if (has_kind(config, UnitKind::mlp)) {
    const int64_t inner = model.ffn_hidden_size;
    sites.up = site("the MLP's first projection", hidden, gpt2 ? inner : 2 * inner, gpt2);
    sites.down = site("the MLP's second projection", inner, hidden, gpt2);
  }
  if (of_slots && has_kind(config, UnitKind::head)) {
    const math::HeadShape shape{rows, hidden, model.padded_vocab_size(), model.vocab_size, config.compute};
    require(math.head->supports(shape), "the head", config.compute);
    sites.head = math.head->plan(shape);
  }
  return sites;
}

}  // namespace penstock::model
