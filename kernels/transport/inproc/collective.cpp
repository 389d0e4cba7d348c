#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "kernels/device/error.h"
#include "kernels/transport/inproc/collective_match.h"
#include "kernels/transport/inproc/exchange.h"
#include "kernels/transport/reduce_elements.h"

namespace penstock::transport {
namespace {

void copy(void* target, const void* source, size_t bytes) {
  if (target != source && bytes > 0) std::memcpy(target, source, bytes);
}

/// What `rank` does once all are there. Each element is read and written by one rank only, which is why
/// in-place operations need no second meeting.
void work(Meeting& meeting, int rank) {
  const auto place = static_cast<size_t>(rank);
  const auto ranks = static_cast<int64_t>(meeting.collectives.size());
  const Collective& ours = meeting.collectives[place];
  switch (ours.kind) {
    case CollectiveKind::all_reduce: {  // our slice of every rank's tensor
      const int64_t elements = ours.input.elements();
      const int64_t begin = elements * rank / ranks;
      const int64_t end = elements * (rank + 1) / ranks;
      reduce_elements(ours.input.dtype, ours.reduction, meeting.inputs, begin, meeting.outputs, begin,
                      end - begin);
      return;
    }
    case CollectiveKind::reduce_scatter: {  // our block of every rank's input
      const int64_t elements = ours.output.elements();
      void* const output = ours.output.data;
      reduce_elements(ours.input.dtype, ours.reduction, meeting.inputs, elements * rank, {&output, 1}, 0,
                      elements);
      return;
    }
    case CollectiveKind::all_gather: {
      const size_t bytes = ours.input.bytes();
      for (size_t i = 0; i < meeting.inputs.size(); ++i)
        copy(block(ours.output.data, i, bytes), meeting.inputs[i], bytes);
      return;
    }
    case CollectiveKind::broadcast:
      copy(ours.output.data, meeting.inputs[static_cast<size_t>(ours.root)], ours.output.bytes());
      return;
    case CollectiveKind::barrier:
      return;
  }
}

size_t bytes_of(const Collective& collective) {
  switch (collective.kind) {
    case CollectiveKind::barrier:
      return 0;
    case CollectiveKind::all_gather:
      return collective.output.bytes();
    default:
      return collective.input.bytes();
  }
}

}  // namespace

void run_collective(Fabric& fabric, Hub& hub, const Identity& who, const Collective& collective,
                    cpu::CpuStream& stream) {
  Meeting* const meeting =
      hub.meetings.arrive(who.rank, collective, stream.task_seconds(), *fabric.interruption());
  if (meeting == nullptr) {
    throw DeviceError(fmt::format("{}: {} will not come to pass: {}", who.label(), described(collective),
                                  fabric.interruption()->reason()));
  }
  const std::string wrong = mismatch(who, meeting->collectives);
  if (!wrong.empty()) {
    hub.meetings.leave(*meeting);
    throw DeviceError(wrong);
  }
  const double start = *std::max_element(meeting->seconds.begin(), meeting->seconds.end());
  work(*meeting, who.rank);
  const double seconds =
      fabric.links().collective_seconds(collective.kind, who.members, bytes_of(collective));
  hub.meetings.leave(*meeting);
  if (stream.on_virtual_clock()) {
    stream.advance_to(start + seconds);
  } else if (seconds > 0) {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }
}

}  // namespace penstock::transport
