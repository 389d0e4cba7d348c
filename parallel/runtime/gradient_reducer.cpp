#include "parallel/runtime/gradient_reducer.h"

#include <algorithm>

#include <fmt/format.h>

#include "kernels/device/error.h"
#include "model/memory_plan.h"

namespace penstock::runtime {

namespace {

// Slices begin at multiples of this many elements, so that they are aligned in any dtype.
constexpr int64_t slice_step = 64;

int64_t slice_elements(int64_t bucket, int members) {
  const int64_t even = (bucket + members - 1) / members;
  return (even + slice_step - 1) / slice_step * slice_step;
}

model::UnitBuffers buffers_of(const model::RankConfig& config, int unit) {
  return model::unit_buffers(model::unit_parameters(config.model, model::unit_at(config.model, unit)),
                             config.compute, shares_tied_weight(config));
}

int64_t fp32_elements(size_t bytes) {
  return static_cast<int64_t>(bytes / size_of(DType::fp32));
}

// The largest bucket: as asked, but no more than the largest unit's gradients.
int64_t bucket_elements(const model::RankConfig& config, double bucket_mib) {
  int64_t largest = 0;
  for (int unit = 0; unit < model::unit_count(config.model); ++unit) {
    if (has_unit(config, unit))
      largest = std::max(largest, fp32_elements(buffers_of(config, unit).gradient_bytes));
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

// The rank's buckets, last unit first, and how many elements their totals take.
struct Buckets {
  std::vector<ReductionBucket> all;
  int64_t total = 0;
};

Buckets buckets_of(const model::RankConfig& config, const ReductionOptions& options) {
  Buckets buckets;
  const int64_t most = bucket_elements(config, options.bucket_mib);
  const auto cut = [&](ReductionBucket bucket, int64_t end) {
    for (; bucket.begin < end; bucket.begin += bucket.count) {
      bucket.count = std::min(most, end - bucket.begin);
      bucket.total = buckets.total;
      buckets.all.push_back(bucket);
      const bool everywhere = options.sum == GradientSum::library;
      buckets.total += everywhere ? bucket.count : slice_elements(bucket.count, options.members());
    }
  };
  std::vector<int> units;
  for (int unit = 0; unit < model::unit_count(config.model); ++unit) {
    if (has_unit(config, unit)) units.push_back(unit);
  }
  for (size_t place = units.size(); place-- > 0;) {
    const model::UnitBuffers layout = buffers_of(config, units[place]);
    ReductionBucket bucket;
    bucket.unit = units[place];
    bucket.place = place;
    bucket.copy = copy_of_unit(config, units[place]);
    if (options.windows.count() > 1) {
      bucket.begin = 0;
      cut(bucket, fp32_elements(layout.weight_half));
      bucket.begin = fp32_elements(layout.weight_half);
      bucket.weight_half = true;
    }
    cut(bucket, fp32_elements(layout.gradient_bytes));
  }
  return buckets;
}

}  // namespace

std::vector<model::PlannedAllocation> reduction_memory(const model::RankConfig& config,
                                                       const ReductionOptions& options) {
  if (options.members() == 1) return {};
  const int64_t bucket = bucket_elements(config, options.bucket_mib);
  const auto bytes = [](int64_t elements, DType dtype) {
    return aligned(static_cast<size_t>(elements) * size_of(dtype));
  };
  std::vector<model::PlannedAllocation> memory;
  const auto add = [&](const char* name, size_t size) {
    memory.push_back({ArenaTag::communication, name, size});
  };
  if (options.windows.count() > 1) {
    const size_t total = bytes(buckets_of(config, options).total, DType::fp32);
    memory.push_back({ArenaTag::gradients, "gradients.total", total});
  }
  if (narrow(options)) add("gradients.outgoing", bytes(bucket, options.wire));
  if (options.sum == GradientSum::library) return memory;
  const int64_t most = slice_elements(bucket, options.members());
  add("gradients.received", bytes(most * options.members(), options.wire));
  if (narrow(options)) add("gradients.sum", bytes(2 * most, DType::fp32));
  return memory;
}

GradientReducer::GradientReducer(model::RankModel& rank, transport::Communicator& group,
                                 const ReductionOptions& options)
    : rank_(rank),
      group_(group),
      options_(options),
      most_(slice_elements(bucket_elements(rank.config(), options.bucket_mib), options.members())),
      buckets_(buckets_of(rank.config(), options).all) {
  if (options.wire != DType::fp32 && options.wire != DType::bf16 && options.wire != DType::fp16) {
    throw UsageError(
        fmt::format("precision.gradient_reduce: fp32, bf16 or fp16, not {}", name_of(options.wire)));
  }
  if (group.size() != options.members()) {
    throw UsageError(fmt::format("gradients of {} replicas x {} copies are summed by {} ranks",
                                 options.replicas, options.copies, group.size()));
  }
  for (const model::PlannedAllocation& piece : reduction_memory(rank.config(), options)) {
    const bool total = piece.name == "gradients.total";
    const bool sums = piece.name == "gradients.sum";
    const DType dtype = total || sums ? DType::fp32 : options.wire;
    Tensor& place = total ? total_ : sums ? sum_ : piece.name == "gradients.received" ? received_ : outgoing_;
    const auto elements = static_cast<int64_t>(piece.bytes / size_of(dtype));
    place = rank.memory().claim(piece.tag, piece.name, dtype, Shape{elements});
  }
  messages_.reserve(2 * static_cast<size_t>(options.members()));
}

void GradientReducer::reduce(Stream& stream, const ModelStage& stage, int begin, int end) {
  const Turn turn = options_.windows.count() > 1 ? Turn::last : Turn::only;
  const Event* waited = nullptr;
  for (const ReductionBucket& bucket : buckets_) {
    if (bucket.unit < begin || bucket.unit >= end) continue;
    const Event* done = &stage.unit_done(bucket.unit);
    if (done != waited) stream.wait(*done);
    waited = done;
    const Tensor& gradients = rank_.parameters().unit_gradients()[bucket.place].values;
    reduce_bucket(stream, part(gradients, bucket.begin, bucket.count), bucket, turn);
  }
}

void GradientReducer::reduce_window(Stream& stream, const ModelStage& stage, int begin, int end,
                                    const schedule::Action& closing) {
  const bool weight_half = closing.op == schedule::Op::backward_weight;
  const Turn turn = options_.windows.window(closing.micro_batch) == 0 ? Turn::first : Turn::next;
  const size_t set = options_.windows.set(closing.micro_batch);
  const Event* waited = nullptr;
  for (const ReductionBucket& bucket : buckets_) {
    if (bucket.unit < begin || bucket.unit >= end || bucket.weight_half != weight_half) continue;
    const Event* done = weight_half ? &stage.unit_done(bucket.unit) : &stage.input_half_done(bucket.unit);
    if (done != waited) stream.wait(*done);
    waited = done;
    const auto& unit = rank_.parameters().unit_gradients()[bucket.place];
    const Tensor gradients = part(set == 0 ? unit.values : unit.values2, bucket.begin, bucket.count);
    reduce_bucket(stream, gradients, bucket, turn);
    stream.fill_zero(gradients.data, gradients.bytes());
  }
}

GradientReducer::Slice GradientReducer::slice(int64_t elements, int member) const {
  const int64_t size = slice_elements(elements, options_.members());
  const int64_t begin = std::min(elements, size * member);
  return {begin, std::min(size, elements - begin)};
}

Tensor GradientReducer::received(int member, int64_t elements) const {
  return part(received_, member * most_, elements);
}

// The first copy's part of each replica comes first, on whichever of its two ranks it is.
Tensor GradientReducer::part_of(int term, const Tensor& own, const ReductionBucket& bucket) const {
  const bool swapped = options_.copies == 2 && group_.rank() % 2 != bucket.copy;
  const int member = swapped ? term ^ 1 : term;
  return member == group_.rank() ? own : received(member, own.elements());
}

void GradientReducer::reduce_bucket(Stream& stream, const Tensor& gradients, const ReductionBucket& bucket,
                                    Turn turn) {
  const int64_t elements = gradients.elements();
  Tensor wire = gradients;
  if (narrow(options_)) {
    wire = part(outgoing_, 0, elements);
    rank_.math().pointwise->convert(stream, gradients, wire);
  }
  const bool gathers = turn == Turn::only || turn == Turn::last;
  if (options_.sum == GradientSum::library) {
    group_.all_reduce(stream, wire, transport::Reduction::sum);
    if (narrow(options_)) rank_.math().pointwise->convert(stream, wire, gradients);
    settle(stream, turn, gradients, bucket);
  } else {
    const int self = group_.rank();
    const Slice mine = slice(elements, self);
    const Tensor own = part(wire, mine.begin, mine.count);
    const auto exchange = [&](auto outgoing, auto incoming) {
      messages_.clear();
      for (int peer = 0; peer < options_.members(); ++peer) {
        if (peer == self) continue;
        messages_.push_back(transport::send_to(peer, outgoing(peer)));
        messages_.push_back(transport::receive_from(peer, incoming(peer)));
      }
      group_.exchange(stream, messages_);
    };
    const auto of_peer = [&](int peer) {
      const Slice theirs = slice(elements, peer);
      return part(wire, theirs.begin, theirs.count);
    };
    exchange(of_peer, [&](int peer) { return received(peer, mine.count); });
    if (mine.count > 0) {
      const Tensor sum = narrow(options_) ? sum_narrow(stream, own, bucket) : sum_fp32(stream, own, bucket);
      settle(stream, turn, sum, bucket);
      if (gathers && narrow(options_)) rank_.math().pointwise->convert(stream, sum, own);
    }
    if (!gathers) return;
    exchange([&](int) { return own; }, of_peer);
    if (narrow(options_)) rank_.math().pointwise->convert(stream, wire, gradients);
  }
}

void GradientReducer::settle(Stream& stream, Turn turn, const Tensor& sum, const ReductionBucket& bucket) {
  if (turn == Turn::only) return;
  const Tensor total = part(total_, bucket.total, sum.elements());
  if (turn == Turn::first) {
    stream.copy(total.data, sum.data, sum.bytes());
  } else {
    rank_.math().pointwise->add(stream, total, sum, turn == Turn::last ? sum : total);
  }
}

Tensor GradientReducer::sum_fp32(Stream& stream, const Tensor& own, const ReductionBucket& bucket) {
  Tensor sum = part_of(0, own, bucket);
  for (int term = 1; term < options_.members(); ++term) {
    const Tensor next = term + 1 == options_.members() ? own : received(0, own.elements());
    rank_.math().pointwise->add(stream, sum, part_of(term, own, bucket), next);
    sum = next;
  }
  return own;
}

Tensor GradientReducer::sum_narrow(Stream& stream, const Tensor& own, const ReductionBucket& bucket) {
  math::Pointwise& math = *rank_.math().pointwise;
  const Tensor sum = part(sum_, 0, own.elements());
  const Tensor next = part(sum_, most_, own.elements());
  for (int term = 0; term < options_.members(); ++term) {
    math.convert(stream, part_of(term, own, bucket), term == 0 ? sum : next);
    if (term > 0) math.add(stream, sum, next, sum);
  }
  return sum;
}

}  // namespace penstock::runtime
