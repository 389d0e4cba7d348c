#include "parallel/runtime/gradient_reducer.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/device/error.h"
#include "model/memory_plan.h"

namespace penstock::runtime {

namespace {

// Slices begin at multiples of this many elements, so that they are aligned in any dtype.
constexpr int64_t slice_step = 64;

int64_t slice_elements(int64_t bucket, int replicas) {
  const int64_t even = (bucket + replicas - 1) / replicas;
  return (even + slice_step - 1) / slice_step * slice_step;
}

// The largest bucket: as asked, but no more than the largest unit's gradients.
int64_t bucket_elements(const model::RankConfig& config, double bucket_mib) {
  int64_t largest = 0;
  for (int unit = 0; unit < model::unit_count(config.model); ++unit) {
    if (!has_unit(config, unit)) continue;
    const auto specs = model::unit_parameters(config.model, model::unit_at(config.model, unit));
    const size_t bytes =
        model::unit_buffers(specs, config.compute, shares_tied_weight(config)).gradient_bytes;
    largest = std::max(largest, static_cast<int64_t>(bytes / size_of(DType::fp32)));
  }
  const double asked = bucket_mib * (1 << 20) / static_cast<double>(size_of(DType::fp32));
  const auto whole = static_cast<int64_t>(std::min(asked, static_cast<double>(largest)));
  return std::max(slice_step, (whole + slice_step - 1) / slice_step * slice_step);
}

bool narrow(const ReductionOptions& options) {
  return options.wire != DType::fp32;
}

Tensor part(const Tensor& tensor, int64_t begin, int64_t count) {
  return tensor.rows(begin, count);
}

}  // namespace

std::vector<model::PlannedAllocation> reduction_memory(const model::RankConfig& config,
                                                       const ReductionOptions& options) {
  if (options.replicas == 1 || (options.sum == GradientSum::library && !narrow(options))) return {};
  const int64_t bucket = bucket_elements(config, options.bucket_mib);
  const auto bytes = [](int64_t elements, DType dtype) {
    return aligned(static_cast<size_t>(elements) * size_of(dtype));
  };
  std::vector<model::PlannedAllocation> memory;
  const auto add = [&](const char* name, size_t size) {
    memory.push_back({ArenaTag::communication, name, size});
  };
  if (narrow(options)) add("gradients.outgoing", bytes(bucket, options.wire));
  if (options.sum == GradientSum::library) return memory;
  const int64_t most = slice_elements(bucket, options.replicas);
  add("gradients.received", bytes(most * options.replicas, options.wire));
  if (narrow(options)) add("gradients.sum", bytes(2 * most, DType::fp32));
  return memory;
}

GradientReducer::GradientReducer(model::RankModel& rank, transport::Communicator& replicas,
                                 const ReductionOptions& options)
    : rank_(rank),
      replicas_(replicas),
      options_(options),
      bucket_(bucket_elements(rank.config(), options.bucket_mib)),
      most_(slice_elements(bucket_, options.replicas)) {
  if (options.wire != DType::fp32 && options.wire != DType::bf16) {
    throw UsageError(fmt::format("precision.gradient_reduce: fp32 or bf16, not {}", name_of(options.wire)));
  }
  for (const model::PlannedAllocation& piece : reduction_memory(rank.config(), options)) {
    const bool sums = piece.name == "gradients.sum";
    const DType dtype = sums ? DType::fp32 : options.wire;
    Tensor& place = sums ? sum_ : piece.name == "gradients.received" ? received_ : outgoing_;
    const auto elements = static_cast<int64_t>(piece.bytes / size_of(dtype));
    place = rank.memory().claim(piece.tag, piece.name, dtype, Shape{elements});
  }
  messages_.reserve(2 * static_cast<size_t>(options.replicas));
}

void GradientReducer::reduce(Stream& stream, const ModelStage& stage, int begin, int end) {
  const auto& units = rank_.parameters().unit_gradients();
  for (auto unit = units.rbegin(); unit != units.rend(); ++unit) {
    if (unit->unit < begin || unit->unit >= end) continue;
    stream.wait(stage.unit_done(unit->unit));
    const int64_t elements = unit->values.elements();
    for (int64_t at = 0; at < elements; at += bucket_)
      reduce_bucket(stream, part(unit->values, at, std::min(bucket_, elements - at)));
  }
}

GradientReducer::Slice GradientReducer::slice(int64_t elements, int replica) const {
  const int64_t size = slice_elements(elements, options_.replicas);
  const int64_t begin = std::min(elements, size * replica);
  return {begin, std::min(size, elements - begin)};
}

Tensor GradientReducer::received(int replica, int64_t elements) const {
  return part(received_, replica * most_, elements);
}

void GradientReducer::reduce_bucket(Stream& stream, const Tensor& gradients) {
  const int64_t elements = gradients.elements();
  Tensor wire = gradients;
  if (narrow(options_)) {
    wire = part(outgoing_, 0, elements);
    rank_.math().pointwise->convert(stream, gradients, wire);
  }
  if (options_.sum == GradientSum::library) {
    replicas_.all_reduce(stream, wire, transport::Reduction::sum);
  } else {
    const int self = replicas_.rank();
    const Slice mine = slice(elements, self);
    const Tensor own = part(wire, mine.begin, mine.count);
    const auto exchange = [&](auto outgoing, auto incoming) {
      messages_.clear();
      for (int peer = 0; peer < options_.replicas; ++peer) {
        if (peer == self) continue;
        messages_.push_back(transport::send_to(peer, outgoing(peer)));
        messages_.push_back(transport::receive_from(peer, incoming(peer)));
      }
      replicas_.exchange(stream, messages_);
    };
    const auto of_peer = [&](int peer) {
      const Slice theirs = slice(elements, peer);
      return part(wire, theirs.begin, theirs.count);
    };
    exchange(of_peer, [&](int peer) { return received(peer, mine.count); });
    if (mine.count > 0) narrow(options_) ? sum_narrow(stream, own) : sum_fp32(stream, own);
    exchange([&](int) { return own; }, of_peer);
  }
  if (narrow(options_)) rank_.math().pointwise->convert(stream, wire, gradients);
}

void GradientReducer::sum_fp32(Stream& stream, const Tensor& own) {
  const auto part_of = [&](int replica) {
    return replica == replicas_.rank() ? own : received(replica, own.elements());
  };
  Tensor sum = part_of(0);
  for (int replica = 1; replica < options_.replicas; ++replica) {
    const Tensor next = replica + 1 == options_.replicas ? own : received(0, own.elements());
    rank_.math().pointwise->add(stream, sum, part_of(replica), next);
    sum = next;
  }
}

void GradientReducer::sum_narrow(Stream& stream, const Tensor& own) {
  math::Pointwise& math = *rank_.math().pointwise;
  const Tensor sum = part(sum_, 0, own.elements());
  const Tensor next = part(sum_, most_, own.elements());
  for (int replica = 0; replica < options_.replicas; ++replica) {
    const Tensor from = replica == replicas_.rank() ? own : received(replica, own.elements());
    math.convert(stream, from, replica == 0 ? sum : next);
    if (replica > 0) math.add(stream, sum, next, sum);
  }
  math.convert(stream, sum, own);
}

}  // namespace penstock::runtime
