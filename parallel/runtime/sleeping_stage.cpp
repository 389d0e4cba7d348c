#include "parallel/runtime/sleeping_stage.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>

#include <fmt/format.h>
#include <sys/prctl.h>

#include "kernels/device/error.h"

namespace penstock::runtime {

using schedule::Op;

namespace {

/// Wakes within a few microseconds of the time, and takes no core meanwhile.
void sleep_for(double seconds) {
  timespec until{};
  if (clock_gettime(CLOCK_MONOTONIC, &until) != 0)
    throw DeviceError(fmt::format("cannot read the monotonic clock: {}", std::strerror(errno)));
  // The kernel rounds a thread's timers up by its slack, 50 microseconds unless told otherwise.
  thread_local const bool precise = prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL) == 0;
  static_cast<void>(precise);  // refused: the sleep is a little longer
  constexpr long second = 1'000'000'000;
  const double whole = std::floor(seconds);
  until.tv_sec += static_cast<time_t>(whole);
  until.tv_nsec += static_cast<long>((seconds - whole) * static_cast<double>(second));
  if (until.tv_nsec >= second) {
    until.tv_nsec -= second;
    ++until.tv_sec;
  }
  int code = 0;
  do {
    code = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
  } while (code == EINTR);
  if (code != 0) throw DeviceError(fmt::format("cannot sleep for {} s: {}", seconds, std::strerror(code)));
}

}  // namespace

void enqueue_sleep(Stream& stream, const Clock& clock, const char* name, double seconds) {
  if (clock.is_virtual()) {
    stream.host_task(name, seconds, [] {});
  } else if (seconds > 0) {
    stream.host_task(name, 0, [seconds] { sleep_for(seconds); });
  }
}

SleepingStage::SleepingStage(Device& device, const ReplayTimes& times, int stage,
                             const std::vector<WindowEnd>& windows)
    : times_(times),
      clock_(*device.options().clock),
      stage_(stage),
      done_(device.create_event(fmt::format("gradients of stage {}", stage))) {
  for (const WindowEnd& end : windows)
    windows_.push_back({end, device.create_event(fmt::format("gradients up to {}", to_string(end.closing)))});
}

const Event& SleepingStage::done(const schedule::Action& closing) const {
  const auto found = std::find_if(windows_.begin(), windows_.end(),
                                  [&](const Window& window) { return window.end.closing == closing; });
  if (found == windows_.end()) throw UsageError(to_string(closing) + " ends no window");
  return *found->done;
}

void SleepingStage::close(Stream& stream, Op call, int micro_batch) {
  for (const Window& window : windows_) {
    if (window.end.call == call && window.end.closing.micro_batch == micro_batch) stream.record(*window.done);
  }
}

void SleepingStage::forward(Stream& stream, const StageCall& call) {
  enqueue(stream, "forward", Op::forward, call.micro_batch);
}

void SleepingStage::backward_input(Stream& stream, const StageCall& call) {
  enqueue(stream, "backward_input", Op::backward_input, call.micro_batch);
  close(stream, Op::backward_input, call.micro_batch);
}

void SleepingStage::backward_weight(Stream& stream, const StageCall& call) {
  enqueue(stream, "backward_weight", Op::backward_weight, call.micro_batch);
  close(stream, Op::backward_weight, call.micro_batch);
  if (call.last) stream.record(*done_);
}

void SleepingStage::enqueue(Stream& stream, const char* name, Op op, int micro_batch) {
  enqueue_sleep(stream, clock_, name, rank_factor_ * times_.action(step_, stage_, op, micro_batch));
}

}  // namespace penstock::runtime
