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

Tensor part(const Tensor& tensor, const model::Slice& slice) {
  return tensor.rows(slice.begin, slice.elements());
}

// Equal slices of elements [begin, end), one after another.
std::vector<model::Slice> equal_slices(int64_t begin, int64_t end, int members) {
  const int64_t size = slice_elements(end - begin, members);
  std::vector<model::Slice> slices;
  for (int member = 0; member < members; ++member)
    slices.push_back({std::min(end, begin + size * member), std::min(end, begin + size * (member + 1))});
  return slices;
}

// The rank's buckets, last unit first, and how many elements their totals take.
struct Buckets {
  std::vector<ReductionBucket> all;
  int64_t total = 0;
};

class BucketMaker {
 public:
  BucketMaker(const model::RankConfig& config, const ReductionOptions& options)
      : config_(config), options_(options), most_(bucket_elements(config, options.bucket_mib)) {}

  Buckets make() {
    std::vector<int> units;
    for (int unit = 0; unit < model::unit_count(config_.model); ++unit) {
      if (has_unit(config_, unit)) units.push_back(unit);
    }
    for (size_t place = units.size(); place-- > 0;) {
      bucket_ = {};
      bucket_.unit = units[place];
      bucket_.place = place;
      bucket_.copy = copy_of_unit(config_, units[place]);
      options_.sharded ? add_owned() : add_whole();
    }
    return std::move(buckets_);
  }

 private:
  void add(std::vector<model::Slice> slices) {
    bucket_.slices = std::move(slices);
    bucket_.total = buckets_.total;
    const bool everywhere = options_.sum == GradientSum::library && !options_.sharded;
    buckets_.total += everywhere ? bucket_.whole().elements() : bucket_.stride();
    buckets_.all.push_back(bucket_);
  }

  void add_whole() {
    const model::UnitBuffers layout = buffers_of(config_, bucket_.unit);
    const auto cut = [&](int64_t begin, int64_t end) {
      for (; begin < end; begin += most_)
        add(equal_slices(begin, std::min(end, begin + most_), options_.members()));
    };
    const int64_t end = fp32_elements(layout.gradient_bytes);
    if (options_.windows.count() == 1) return cut(0, end);
    cut(0, fp32_elements(layout.weight_half));
    bucket_.weight_half = true;
    cut(fp32_elements(layout.weight_half), end);
  }

  // As much of each member's at once as would be of one bucket.
  void add_owned() {
    const int members = options_.members();
    const int64_t most = slice_elements(most_, members);
    const auto specs = model::unit_parameters(config_.model, model::unit_at(config_.model, bucket_.unit));
    const model::UnitBuffers layout = buffers_of(config_, bucket_.unit);
    for (const model::ShardRun& run : model::shard_runs(specs)) {
      bucket_.weight_half = options_.windows.count() > 1 && specs[run.front()].in_weight_half;
      std::vector<model::Slice> rest;
      for (int member = 0; member < members; ++member)
        rest.push_back(shard_stretch(run, shard_slices(specs, {members, member}), layout.gradient,
                                     size_of(DType::fp32)));
      const auto any = [](const model::Slice& slice) { return slice.elements() > 0; };
      while (std::any_of(rest.begin(), rest.end(), any)) {
        std::vector<model::Slice> slices = rest;
        for (size_t member = 0; member < rest.size(); ++member) {
          slices[member].end = std::min(rest[member].end, rest[member].begin + most);
          rest[member].begin = slices[member].end;
        }
        add(std::move(slices));
      }
    }
  }

  const model::RankConfig& config_;
  const ReductionOptions& options_;
  int64_t most_;
  ReductionBucket bucket_;
  Buckets buckets_;
};

Buckets buckets_of(const model::RankConfig& config, const ReductionOptions& options) {
  return BucketMaker(config, options).make();
}

// A wire that is not the gradients' memory itself.
bool travels_apart(const ReductionOptions& options) {
  return narrow(options) || (options.sharded && options.sum == GradientSum::library);
}

}  // namespace

int64_t ReductionBucket::stride() const {
  int64_t longest = 0;
  for (const model::Slice& slice : slices) longest = std::max(longest, slice.elements());
  return (longest + slice_step - 1) / slice_step * slice_step;
}

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
  const int64_t most = slice_elements(bucket, options.members());
  if (travels_apart(options))
    add("gradients.outgoing", bytes(options.sharded ? most * options.members() : bucket, options.wire));
  const bool ordered = options.sum == GradientSum::ordered;
  if (!ordered && !options.sharded) return memory;
  add("gradients.received", bytes(ordered ? most * options.members() : most, options.wire));
  if (narrow(options) && ordered) add("gradients.sum", bytes(2 * most, DType::fp32));
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
    const model::ParameterStore& parameters = rank_.parameters();
    reduce_bucket(stream, parameters.gradients(parameters.unit_gradients()[bucket.place]), bucket, turn);
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
    const Tensor& gradients = set == 0 ? unit.values : unit.values2;
    reduce_bucket(stream, gradients, bucket, turn);
    const auto clear = [&](const model::Slice& slice) {
      const Tensor summed = part(gradients, slice);
      if (summed.elements() > 0) stream.fill_zero(summed.data, summed.bytes());
    };
    if (options_.sharded) {
      for (const model::Slice& slice : bucket.slices) clear(slice);
    } else {
      clear(bucket.whole());
    }
  }
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

Tensor GradientReducer::wire_of(const Tensor& gradients, const ReductionBucket& bucket, int member) const {
  const model::Slice& slice = bucket.slices[static_cast<size_t>(member)];
  if (!travels_apart(options_)) return part(gradients, slice);
  const int64_t begin =
      options_.sharded ? bucket.stride() * member : slice.begin - bucket.slices.front().begin;
  return part(outgoing_, begin, slice.elements());
}

void GradientReducer::pack(Stream& stream, const Tensor& gradients, const ReductionBucket& bucket) {
  if (!options_.sharded) {
    const model::Slice whole = bucket.whole();
    rank_.math().pointwise->convert(stream, part(gradients, whole), part(outgoing_, 0, whole.elements()));
    return;
  }
  for (int member = 0; member < options_.members(); ++member) {
    const Tensor from = part(gradients, bucket.slices[static_cast<size_t>(member)]);
    const Tensor to = wire_of(gradients, bucket, member);
    if (from.elements() == 0) continue;
    if (narrow(options_)) {
      rank_.math().pointwise->convert(stream, from, to);
    } else {
      stream.copy(to.data, from.data, from.bytes());
    }
  }
}

void GradientReducer::unpack(Stream& stream, const Tensor& gradients, const ReductionBucket& bucket) {
  const model::Slice ours =
      options_.sharded ? bucket.slices[static_cast<size_t>(group_.rank())] : bucket.whole();
  const Tensor from =
      options_.sharded ? wire_of(gradients, bucket, group_.rank()) : part(outgoing_, 0, ours.elements());
  if (from.elements() > 0) rank_.math().pointwise->convert(stream, from, part(gradients, ours));
}

void GradientReducer::all_reduce(Stream& stream, const Tensor& gradients, const ReductionBucket& bucket,
                                 Turn turn) {
  const Tensor sum = part(gradients, bucket.whole());
  const Tensor wire = narrow(options_) ? part(outgoing_, 0, sum.elements()) : sum;
  group_.all_reduce(stream, wire, transport::Reduction::sum);
  if (narrow(options_)) unpack(stream, gradients, bucket);
  settle(stream, turn, sum, bucket);
}

void GradientReducer::reduce_scatter(Stream& stream, const Tensor& gradients, const ReductionBucket& bucket) {
  const int64_t stride = bucket.stride();
  const Tensor sums = part(received_, 0, stride);
  group_.reduce_scatter(stream, part(outgoing_, 0, stride * options_.members()), sums,
                        transport::Reduction::sum);
  const Tensor own = part(gradients, bucket.slices[static_cast<size_t>(group_.rank())]);
  if (own.elements() == 0) return;
  const Tensor sum = part(sums, 0, own.elements());
  if (narrow(options_)) {
    rank_.math().pointwise->convert(stream, sum, own);
  } else {
    stream.copy(own.data, sum.data, sum.bytes());
  }
}

void GradientReducer::reduce_bucket(Stream& stream, const Tensor& gradients, const ReductionBucket& bucket,
                                    Turn turn) {
  if (travels_apart(options_)) pack(stream, gradients, bucket);
  const bool library = options_.sum == GradientSum::library;
  if (library && !options_.sharded) return all_reduce(stream, gradients, bucket, turn);
  const int self = group_.rank();
  if (library) {
    reduce_scatter(stream, gradients, bucket);
    const Tensor own = part(gradients, bucket.slices[static_cast<size_t>(self)]);
    if (own.elements() > 0) settle(stream, turn, own, bucket);
    return;
  }
  const Tensor own = wire_of(gradients, bucket, self);
  const auto exchange = [&](auto outgoing, auto incoming) {
    messages_.clear();
    for (int peer = 0; peer < options_.members(); ++peer) {
      if (peer == self) continue;
      messages_.push_back(transport::send_to(peer, outgoing(peer)));
      messages_.push_back(transport::receive_from(peer, incoming(peer)));
    }
    group_.exchange(stream, messages_);
  };
  const auto of_peer = [&](int peer) { return wire_of(gradients, bucket, peer); };
  exchange(of_peer, [&](int peer) { return received(peer, own.elements()); });
  const bool ends = turn == Turn::only || turn == Turn::last;
  if (own.elements() > 0) {
    const Tensor sum = narrow(options_) ? sum_narrow(stream, own, bucket) : sum_fp32(stream, own, bucket);
    settle(stream, turn, sum, bucket);
    if (ends && narrow(options_)) rank_.math().pointwise->convert(stream, sum, own);
  }
  if (!ends) return;
  if (!options_.sharded) exchange([&](int) { return own; }, of_peer);
  if (narrow(options_)) unpack(stream, gradients, bucket);
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
