#include "kernels/cpu/stream.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <system_error>
#include <typeinfo>

#include <fmt/format.h>
#include <pthread.h>

#include "kernels/cpu/event.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/signal.h"
#include "kernels/cpu/task_times.h"
#include "kernels/cpu/thread_scope.h"
#include "kernels/device/error.h"

namespace penstock::cpu {
namespace {

/// Bytes of a copy or fill that are worth a thread.
constexpr int64_t memory_grain = int64_t{1} << 20;

}  // namespace

CpuStream::CpuStream(std::string name, StreamUse use, const DeviceOptions& options, uint64_t ordinal)
    : name_(std::move(name)),
      rank_(options.rank),
      threads_(use == StreamUse::compute ? options.threads : 1),
      mode_(options.mode),
      strict_events_(options.strict_events),
      clock_(options.clock),
      virtual_(clock_->is_virtual()),
      slot_mask_(options.mode == StreamMode::inline_now ? 0 : queue_capacity - 1),
      slots_(std::make_unique<Slot[]>(slot_mask_ + 1)),
      random_state_(options.shuffle_seed * 0x9e3779b97f4a7c15u +
                    static_cast<uint64_t>(options.rank) * 0xd1b54a32d192ed03u + ordinal) {
  EventRecordPool::instance().reserve(queue_capacity);
  if (mode_ == StreamMode::inline_now) return;
  try {
    worker_ = std::thread([this] { run_worker(); });
  } catch (const std::system_error& error) {
    EventRecordPool::instance().unreserve(queue_capacity);
    throw DeviceError(fmt::format(
        "rank {}: cannot start the worker thread of stream \"{}\": {}; raise the limit on threads "
        "(ulimit -u) or use fewer streams",
        rank_, name_, error.what()));
  }
}

CpuStream::~CpuStream() {
  wait_for_completed(queued_.load());
  if (worker_.joinable()) {
    stopping_.store(true);
    work_.notify_all();
    worker_.join();
  }
  if (failed_.load()) {
    std::fputs(
        fmt::format("penstock: {}; the stream was destroyed before the error could surface\n", failure_text())
            .c_str(),
        stderr);
  }
  EventRecordPool::instance().unreserve(queue_capacity);
}

CpuStream& CpuStream::of(Stream& stream) {
  if (typeid(stream) != typeid(CpuStream)) {
    throw UsageError(fmt::format(
        "stream \"{}\" belongs to another kind of device; CPU kernels run on streams made by a CPU device",
        stream.name()));
  }
  return static_cast<CpuStream&>(stream);
}

void CpuStream::record(Event& event) {
  CpuEvent& target = CpuEvent::of(event);
  check_clock("event", target.name(), target.on_virtual_clock());
  Slot& slot = claim();
  EventRecordReference record = EventRecordPool::instance().take();
  target.capture(record);
  enqueue_ordering(slot, "record",
                   [record = std::move(record)](CpuStream& stream) { record->finish(stream.now()); });
}

void CpuStream::wait(const Event& event) {
  const CpuEvent& source = CpuEvent::of(event);
  check_clock("event", source.name(), source.on_virtual_clock());
  EventRecordReference record = source.captured();
  if (!record && strict_events_) {
    throw UsageError(fmt::format(
        "rank {}, stream \"{}\": wait for event \"{}\", which was never recorded; record it first, or use a "
        "signal",
        rank_, name_, source.name()));
  }
  Slot& slot = claim();
  if (!record) return;
  enqueue_ordering(slot, "wait for an event", [record = std::move(record)](CpuStream& stream) {
    if (stream.failed_.load()) return;
    record->wait();
    stream.hold_until(record->seconds());
  });
}

void CpuStream::signal(Signal& signal, uint64_t value) {
  std::shared_ptr<SignalCounter> counter = CpuSignal::counter_of(signal);
  check_clock("signal", counter->name(), counter->on_virtual_clock());
  Slot& slot = claim();
  counter->promise(value);
  enqueue_ordering(slot, "write a signal", [counter = std::move(counter), value](CpuStream& stream) {
    counter->write(value, stream.now());
  });
}

void CpuStream::wait(const Signal& signal, uint64_t value) {
  std::shared_ptr<SignalCounter> counter = CpuSignal::counter_of(signal);
  check_clock("signal", counter->name(), counter->on_virtual_clock());
  if (mode_ == StreamMode::inline_now && counter->value() < value) {
    throw UsageError(fmt::format(
        "rank {}, stream \"{}\": wait for signal \"{}\" to reach {}, but it stands at {} and streams run "
        "inline; write it first, or use queued streams",
        rank_, name_, counter->name(), value, counter->value()));
  }
  enqueue_ordering(claim(), "wait for a signal", [counter = std::move(counter), value](CpuStream& stream) {
    if (stream.failed_.load()) return;
    stream.hold_until(counter->wait(value));
  });
}

void CpuStream::copy(void* dst, const void* src, size_t bytes) {
  enqueue("copy", [dst, src, bytes] {
    parallel_ranges(static_cast<int64_t>(bytes), memory_grain, [dst, src](int64_t begin, int64_t end) {
      std::memcpy(static_cast<char*>(dst) + begin, static_cast<const char*>(src) + begin,
                  static_cast<size_t>(end - begin));
    });
  });
}

void CpuStream::fill_zero(void* dst, size_t bytes) {
  enqueue("fill_zero", [dst, bytes] {
    parallel_ranges(static_cast<int64_t>(bytes), memory_grain, [dst](int64_t begin, int64_t end) {
      std::memset(static_cast<char*>(dst) + begin, 0, static_cast<size_t>(end - begin));
    });
  });
}

void CpuStream::host_task(const char* name, double cost, std::function<void()> task) {
  enqueue(name, cost, [task = std::move(task)] { task(); });
}

void CpuStream::stamp(double* seconds) {
  // Other threads may look at it meanwhile.
  enqueue_ordering(claim(), "stamp", [seconds](CpuStream& stream) {
    std::atomic_ref<double>(*seconds).store(stream.now(), std::memory_order_relaxed);
  });
}

void CpuStream::synchronize() {
  wait_for_completed(queued_.load());
  if (failed_.load()) surface();
}

CpuStream::Slot& CpuStream::claim() {
  if (failed_.load()) surface();
  const uint64_t queued = queued_.load(std::memory_order_relaxed);
  if (queued - completed_seen_ == queue_capacity) {
    completed_seen_ = completed_.load();
    // Full: sleep until there is room for a good many, so that the worker does not wake the host after every
    // task.
    if (queued - completed_seen_ == queue_capacity) {
      wait_for_completed(queued - queue_capacity * 3 / 4);
      if (failed_.load()) surface();
    }
  }
  return slots_[queued & slot_mask_];
}

void CpuStream::publish(Slot& slot, const char* name, double cost, bool ordering) {
  slot.name = name;
  slot.cost = cost;
  slot.ordering = ordering;
  queued_.store(queued_.load(std::memory_order_relaxed) + 1);
  if (mode_ != StreamMode::inline_now) {
    work_.notify_all();
    return;
  }
  {
    const ThreadScope scope(threads_);
    execute(slot);
  }
  if (failed_.load()) surface();
}

void CpuStream::execute(Slot& slot) {
  const bool run = slot.ordering || !failed_.load(std::memory_order_relaxed);
  if (!run) ++dropped_;
  const bool timed = TaskTimes::wanted() && !slot.ordering;
  const auto start = timed ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
  try {
    slot.invoke(slot.storage.data(), *this, run);
    if (timed) {
      TaskTimes::add(slot.name,
                     std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    if (run) virtual_seconds_ += slot.cost;
    // Messages follow other work only when it is done.
    if (!slot.ordering && !std::exchange(passed_messages_, false)) message_seconds_ = virtual_seconds_;
  } catch (const std::exception& error) {
    fail(slot.name, error.what());
  } catch (...) {
    fail(slot.name, "an exception that is no std::exception");
  }
  const uint64_t completed = completed_.load(std::memory_order_relaxed) + 1;
  completed_.store(completed);
  if (completed >= wake_host_at_.load()) done_.notify_all();
}

void CpuStream::run_worker() {
  // The kernel keeps 15 characters; the name is for debuggers and top, so a refusal changes nothing.
  static_cast<void>(pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str()));
  const ThreadScope scope(threads_);
  for (uint64_t next = 0;; ++next) {
    work_.wait([&] { return queued_.load() != next || stopping_.load(); });
    if (queued_.load() == next) return;
    if (mode_ == StreamMode::shuffled) delay_randomly();
    execute(slots_[next & slot_mask_]);
  }
}

void CpuStream::delay_randomly() {
  // splitmix64 (Steele, Lea, Flood 2014).
  uint64_t bits = random_state_ += 0x9e3779b97f4a7c15u;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  bits ^= bits >> 31;
  const uint64_t kind = bits % 16;
  if (kind == 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(bits / 16 % 200));
  } else if (kind < 8) {
    for (uint64_t i = 0; i < kind; ++i) std::this_thread::yield();
  }
}

void CpuStream::fail(const char* task, const char* what) {
  if (failed_.load(std::memory_order_relaxed)) return;
  failed_task_ = task;
  failure_ = what;
  failed_.store(true);
}

void CpuStream::surface() {
  wait_for_completed(queued_.load());
  const std::string text = failure_text();
  dropped_ = 0;
  failed_.store(false);
  throw DeviceError(text);
}

std::string CpuStream::failure_text() const {
  return fmt::format(
      "rank {}, stream \"{}\": task \"{}\" failed: {} ({} tasks queued behind it were dropped)", rank_, name_,
      failed_task_, failure_, dropped_);
}

void CpuStream::wait_for_completed(uint64_t tasks) {
  wake_host_at_.store(tasks);
  done_.wait([&] { return completed_.load() >= tasks; });
  wake_host_at_.store(UINT64_MAX);
  completed_seen_ = completed_.load();
}

void CpuStream::check_clock(const char* kind, const std::string& object, bool on_virtual_clock) const {
  if (on_virtual_clock == virtual_) return;
  throw UsageError(fmt::format(
      "rank {}, stream \"{}\": {} \"{}\" is on a {} clock and the stream on a {} one; give every device of "
      "the run the same kind",
      rank_, name_, kind, object, on_virtual_clock ? "virtual" : "real", virtual_ ? "virtual" : "real"));
}

}  // namespace penstock::cpu
