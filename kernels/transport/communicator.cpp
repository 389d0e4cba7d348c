#include "kernels/transport/communicator.h"

#include <utility>

#include <fmt/format.h>

#include "kernels/device/error.h"
#include "kernels/transport/reduce_elements.h"

namespace penstock::transport {
namespace {

const std::byte* begin_of(const Tensor& tensor) {
  return static_cast<const std::byte*>(tensor.data);
}

bool overlap(const Tensor& a, const Tensor& b) {
  return begin_of(a) < begin_of(b) + b.bytes() && begin_of(b) < begin_of(a) + a.bytes();
}

std::string described(const Tensor& tensor) {
  return fmt::format("{} {}", name_of(tensor.dtype), to_string(tensor.shape));
}

}  // namespace

std::string_view name_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return "sum";
    case Reduction::maximum:
      return "maximum";
    case Reduction::minimum:
      return "minimum";
  }
  return "?";
}

const char* name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return "all_reduce";
    case CollectiveKind::reduce_scatter:
      return "reduce_scatter";
    case CollectiveKind::all_gather:
      return "all_gather";
    case CollectiveKind::broadcast:
      return "broadcast";
    case CollectiveKind::barrier:
      return "barrier";
  }
  return "?";
}

Communicator::Communicator(std::shared_ptr<const Identity> who)
    : who_(std::move(who)), sent_(who_->members.size(), 0), received_(who_->members.size(), 0) {}

void Communicator::exchange(Stream& stream, std::span<const Message> messages) {
  for (const Message& message : messages) {
    check_rank("exchange", message.peer);
    check_memory("exchange", message.tensor);
  }
  TransferGroup group(messages.size());
  for (size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    const bool sends = message.direction == Direction::send;
    const auto peer = static_cast<size_t>(message.peer);
    const uint32_t sequence = sends ? sent_[peer]++ : received_[peer]++;
    group.all()[i] = {message.tensor.as<std::byte>(), message.tensor.bytes(), sequence, message.peer, sends};
  }
  if (!messages.empty()) queue_exchange(stream, std::move(group));
}

void Communicator::all_reduce(Stream& stream, const Tensor& input, const Tensor& output,
                              Reduction reduction) {
  check_reduction(CollectiveKind::all_reduce, input, output);
  if (input.elements() != output.elements()) {
    throw UsageError(fmt::format("{}: all_reduce of {} into {}; both need as many elements", who_->label(),
                                 described(input), described(output)));
  }
  if (input.data != output.data && overlap(input, output)) {
    throw UsageError(
        fmt::format("{}: all_reduce of {} into memory that overlaps it; give the same tensor or another one",
                    who_->label(), described(input)));
  }
  queue(stream, {CollectiveKind::all_reduce, reduction, 0, 0, input, output});
}

void Communicator::reduce_scatter(Stream& stream, const Tensor& input, const Tensor& output,
                                  Reduction reduction) {
  check_reduction(CollectiveKind::reduce_scatter, input, output);
  if (input.elements() != output.elements() * size()) {
    throw UsageError(
        fmt::format("{}: reduce_scatter of {} into {}; the input needs {} times as many elements",
                    who_->label(), described(input), described(output), size()));
  }
  if (overlap(input, output)) {
    throw UsageError(fmt::format("{}: reduce_scatter of {} into memory that overlaps it; give other memory",
                                 who_->label(), described(input)));
  }
  queue(stream, {CollectiveKind::reduce_scatter, reduction, 0, 0, input, output});
}

void Communicator::all_gather(Stream& stream, const Tensor& input, const Tensor& output) {
  check_memory("all_gather", input);
  check_memory("all_gather", output);
  if (input.dtype != output.dtype || input.elements() * size() != output.elements()) {
    throw UsageError(fmt::format(
        "{}: all_gather of {} into {}; the output needs the same dtype and {} times as many elements",
        who_->label(), described(input), described(output), size()));
  }
  const bool own_block = begin_of(input) == begin_of(output) + static_cast<size_t>(rank()) * input.bytes();
  if (!own_block && overlap(input, output)) {
    throw UsageError(fmt::format("{}: all_gather of {} from inside its output, but not from block {}",
                                 who_->label(), described(input), rank()));
  }
  queue(stream, {CollectiveKind::all_gather, Reduction::sum, 0, 0, input, output});
}

void Communicator::broadcast(Stream& stream, const Tensor& tensor, int root) {
  check_rank("broadcast", root);
  check_memory("broadcast", tensor);
  queue(stream, {CollectiveKind::broadcast, Reduction::sum, root, 0, tensor, tensor});
}

void Communicator::barrier(Stream& stream) {
  queue(stream, {});
}

void Communicator::check_memory(const char* operation, const Tensor& tensor) const {
  if (tensor || tensor.elements() == 0) return;
  throw UsageError(fmt::format("{}: {} of an absent tensor, {}; give it memory or a shape without elements",
                               who_->label(), operation, described(tensor)));
}

void Communicator::check_rank(const char* operation, int peer) const {
  if (peer >= 0 && peer < size()) return;
  throw UsageError(
      fmt::format("{}: {} with rank {}; ranks are 0 to {}", who_->label(), operation, peer, size() - 1));
}

void Communicator::check_reduction(CollectiveKind kind, const Tensor& input, const Tensor& output) const {
  check_memory(name_of(kind), input);
  check_memory(name_of(kind), output);
  if (input.dtype != output.dtype || !reducible(input.dtype)) {
    throw UsageError(
        fmt::format("{}: {} of {} into {}; both must be of one of fp32, fp64, bf16, fp16, i32, i64",
                    who_->label(), name_of(kind), described(input), described(output)));
  }
}

void Communicator::queue(Stream& stream, Collective collective) {
  collective.sequence = collectives_++;
  queue_collective(stream, collective);
}

}  // namespace penstock::transport
