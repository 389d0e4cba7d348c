#include "model/boundary.h"

#include "kernels/device/arena.h"
#include "model/unit_id.h"

namespace penstock::model {

std::vector<BoundaryTensor> boundary(const RankConfig& config) {
  return {{"hidden", Shape{config.shape().rows(), config.model.hidden_size}, wire_dtype(config)}};
}

void take_from_wire(Stream& stream, math::Math& math, const Tensor& arrived, const Tensor& target) {
  if (arrived.dtype == target.dtype) {
    stream.copy(target.data, arrived.data, target.bytes());
  } else {
    math.pointwise->convert(stream, arrived, target);
  }
}

std::vector<SideBandTensor> side_band(const RankConfig& config, const StageConfig& stage) {
  bool has_attention = false;
  for (int unit = stage.begin; unit < stage.end; ++unit) {
    has_attention = has_attention || unit_at(config.model, unit).kind == UnitKind::attention;
  }
  const bool has_embedding = stage.begin == 0;
  const bool has_head = stage.end == unit_count(config.model);
  const bool learned_positions = config.model.family == Family::gpt2;
  const Shape rows{config.shape().rows()};
  std::vector<SideBandTensor> list;
  list.reserve(5);
  if (has_embedding) list.push_back({"tokens", &SideBand::tokens, rows, DType::i32});
  if (has_head) list.push_back({"targets", &SideBand::targets, rows, DType::i32});
  if (learned_positions ? has_embedding : has_attention)
    list.push_back({"positions", &SideBand::positions, rows, DType::i32});
  if (config.document_mask && has_attention) list.push_back({"starts", &SideBand::starts, rows, DType::i32});
  const bool head_only = has_head && stage.end - stage.begin == 1;
  if (config.model.dropout > 0 && !head_only)
    list.push_back({"samples", &SideBand::samples, Shape{config.micro_batch}, DType::i64});
  return list;
}

size_t side_band_bytes(const RankConfig& config, const StageConfig& stage) {
  size_t bytes = 0;
  for (const SideBandTensor& tensor : side_band(config, stage)) {
    bytes += aligned(static_cast<size_t>(tensor.shape.elements()) * size_of(tensor.dtype));
  }
  return bytes;
}

}  // namespace penstock::model
