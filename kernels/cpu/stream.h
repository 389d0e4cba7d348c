#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "kernels/cpu/wait_point.h"
#include "kernels/device/device.h"

namespace penstock::cpu {

/// A stream of the processor: a worker thread with an in-order ring of tasks stored in place, so that
/// queueing never allocates (on a virtual clock a signal's history grows). When the ring is full the host
/// waits, which bounds how far it runs ahead. In inline mode there is no worker: the calling thread runs the
/// task, and its error surfaces from the call that queued it. Tasks must not call streams or events.
class CpuStream final : public Stream {
 public:
  static constexpr size_t task_bytes = 768;
  static constexpr uint64_t queue_capacity = 512;
  static_assert((queue_capacity & (queue_capacity - 1)) == 0);

  /// `ordinal` tells the streams of a device apart where delays are random.
  CpuStream(std::string name, StreamUse use, const DeviceOptions& options, uint64_t ordinal);
  ~CpuStream() override;
  CpuStream(const CpuStream&) = delete;
  CpuStream& operator=(const CpuStream&) = delete;

  /// The CPU's own type, for kernels; UsageError for another backend's stream.
  static CpuStream& of(Stream& stream);

  /// Queues `task`, a callable without arguments of at most task_bytes; it is moved into the queue and
  /// destroyed right after it ran. `name` must outlive the work (a literal); errors carry it. `cost`: its
  /// seconds on a virtual clock. DeviceError if earlier work failed.
  template <class Task>
  void enqueue(const char* name, double cost, Task task) {
    Slot& slot = claim();
    slot.emplace(std::move(task), [](void* storage, CpuStream&, bool run) {
      const Destroyed<Task> stored{*std::launder(static_cast<Task*>(storage))};
      if (run) stored.task();
    });
    publish(slot, name, cost, false);
  }
  template <class Task>
  void enqueue(const char* name, Task task) {
    enqueue(name, 0.0, std::move(task));
  }

  /// As enqueue, for work whose duration only its run tells (messages): `task` is called with this stream,
  /// and may read and move its time through task_seconds() and advance_to().
  template <class Task>
  void enqueue_timed(const char* name, Task task) {
    Slot& slot = claim();
    slot.emplace(std::move(task), [](void* storage, CpuStream& stream, bool run) {
      const Destroyed<Task> stored{*std::launder(static_cast<Task*>(storage))};
      if (run) stored.task(stream);
    });
    publish(slot, name, 0.0, false);
  }
  bool on_virtual_clock() const { return virtual_; }
  /// Inside a task of this stream: the time on its clock, seconds.
  double task_seconds() const { return now(); }
  /// Inside a task of this stream: on a virtual clock the stream's time becomes at least `seconds`; a real
  /// one passes by itself.
  void advance_to(double seconds) {
    if (virtual_ && seconds > virtual_seconds_) virtual_seconds_ = seconds;
  }
  /// Inside a task that only passes messages: the time from which its messages may start. Where nothing but
  /// messages ran since, that is when the ones before were off their links, though they may not be there yet.
  double message_seconds() const { return virtual_ ? message_seconds_ : now(); }
  /// As advance_to, by messages that leave their links free at `off` and are there at `arrived`.
  void advance_messages(double off, double arrived) {
    if (!virtual_) return;
    if (off > message_seconds_) message_seconds_ = off;
    advance_to(arrived);
    passed_messages_ = true;
  }

  /// Threads of this stream's parallel loops and matmuls (ThreadScope): the device's for compute, 1 for
  /// transfers.
  int threads() const { return threads_; }
  int rank() const { return rank_; }

  const std::string& name() const override { return name_; }
  void record(Event& event) override;
  void wait(const Event& event) override;
  void signal(Signal& signal, uint64_t value) override;
  void wait(const Signal& signal, uint64_t value) override;
  void copy(void* dst, const void* src, size_t bytes) override;
  void fill_zero(void* dst, size_t bytes) override;
  void host_task(const char* name, double cost, std::function<void()> task) override;
  void stamp(double* seconds) override;
  void synchronize() override;

 private:
  static constexpr size_t line_bytes = 64;  // a cache line: what host and worker write is kept apart

  template <class Task>
  struct Destroyed {
    Task& task;
    ~Destroyed() { task.~Task(); }
  };

  struct Slot {
    /// Runs the stored task if told to, and destroys it in any case.
    using Invoke = void (*)(void* storage, CpuStream& stream, bool run);

    Invoke invoke = nullptr;
    const char* name = nullptr;
    double cost = 0;
    bool ordering = false;  ///< events, signals, stamps: not dropped
    alignas(line_bytes) std::array<std::byte, task_bytes> storage;

    template <class Task>
    void emplace(Task task, Invoke invoker) {
      static_assert(sizeof(Task) <= task_bytes,
                    "the task captures too much: capture a pointer to a plan that outlives it");
      static_assert(alignof(Task) <= line_bytes);
      new (storage.data()) Task(std::move(task));
      invoke = invoker;
    }
  };

  /// As enqueue, for tasks that take the stream and are never dropped.
  template <class Task>
  void enqueue_ordering(Slot& slot, const char* name, Task task) {
    slot.emplace(std::move(task), [](void* storage, CpuStream& stream, bool) {
      const Destroyed<Task> stored{*std::launder(static_cast<Task*>(storage))};
      stored.task(stream);
    });
    publish(slot, name, 0.0, true);
  }

  /// The next free slot, waiting for one if the ring is full. Throws the kept error, if there is one.
  Slot& claim();
  void publish(Slot& slot, const char* name, double cost, bool ordering);
  void execute(Slot& slot);
  void run_worker();
  void delay_randomly();
  void fail(const char* task, const char* what);
  [[noreturn]] void surface();
  std::string failure_text() const;
  /// Blocks the host until `tasks` tasks, counted from the stream's start, are done.
  void wait_for_completed(uint64_t tasks);
  void check_clock(const char* kind, const std::string& object, bool on_virtual_clock) const;
  double now() const { return virtual_ ? virtual_seconds_ : clock_->now(); }
  /// What follows starts no earlier.
  void hold_until(double seconds) {
    if (seconds > virtual_seconds_) virtual_seconds_ = seconds;
    if (seconds > message_seconds_) message_seconds_ = seconds;
  }

  const std::string name_;
  const int rank_;
  const int threads_;
  const StreamMode mode_;
  const bool strict_events_;
  const std::shared_ptr<Clock> clock_;
  const bool virtual_;
  const uint64_t
      slot_mask_;  ///< one less than the slots, a power of two; inline: one, which stays in the cache
  std::unique_ptr<Slot[]> slots_;

  // Written by the host.
  alignas(line_bytes) std::atomic<uint64_t> queued_{0};
  std::atomic<uint64_t> wake_host_at_{UINT64_MAX};
  std::atomic<bool> stopping_{false};
  uint64_t completed_seen_ = 0;
  WaitPoint work_;

  // Written by the worker (in inline mode by the calling thread).
  alignas(line_bytes) std::atomic<uint64_t> completed_{0};
  std::atomic<bool> failed_{false};
  double virtual_seconds_ = 0;
  double message_seconds_ = 0;
  bool passed_messages_ = false;
  uint64_t random_state_;
  std::string failed_task_;
  std::string failure_;
  uint64_t dropped_ = 0;
  WaitPoint done_;

  std::thread worker_;
};

}  // namespace penstock::cpu
