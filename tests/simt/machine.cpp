#include "tests/simt/machine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "tests/simt/block.h"

namespace penstock::simt {

thread_local constinit const Here* current_here = nullptr;
thread_local constinit uint64_t current_block = 0;

bool same_place(const std::source_location& a, const std::source_location& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

std::string to_string(const std::source_location& place) {
  return fmt::format("{}:{}", place.file_name(), place.line());
}

namespace {

std::string to_string(const uint3& index) {
  return fmt::format("({},{},{})", index.x, index.y, index.z);
}

uint3 coordinates(uint64_t index, const dim3& extent) {
  return {static_cast<unsigned>(index % extent.x), static_cast<unsigned>(index / extent.x % extent.y),
          static_cast<unsigned>(index / extent.x / extent.y)};
}

uint64_t volume(const dim3& extent) {
  return uint64_t{extent.x} * extent.y * extent.z;
}

}  // namespace

Machine& Machine::of_this_thread() {
  thread_local Machine machine;
  return machine;
}

Machine::~Machine() {
  quit_ = true;
  for (const auto& thread : threads_) Fiber::switch_to(home_, *thread->fiber);
}

void Machine::prepare(const LaunchRequest& request) {
  request_ = request;
  const uint64_t count = volume(request.block);
  if (count == 0 || count > 1024 || volume(request.grid) == 0 || request.grid.y > 65535 ||
      request.grid.z > 65535) {
    throw Fault(fmt::format("kernel {}: {} threads a block (1 to 1024 are allowed), grid ({},{},{})",
                            request.kernel, count, request.grid.x, request.grid.y, request.grid.z));
  }
  if (request.shared_bytes > size_t{227} * 1024) {
    throw Fault(fmt::format("kernel {}: {} bytes of dynamic shared memory; a block has at most 227 KiB",
                            request.kernel, request.shared_bytes));
  }
  count_ = static_cast<unsigned>(count);
  while (threads_.size() < count_) {
    threads_.push_back(std::make_unique<Thread>());
    Thread& thread = *threads_.back();
    thread.number = static_cast<unsigned>(threads_.size()) - 1;
    thread.fiber = std::make_unique<Fiber>(home_, [this, &thread] { thread_loop(thread); });
  }
  warps_.resize((count_ + warp_size - 1) / warp_size);
  for (Warp& warp : warps_) warp.group_count = 0;
  // A size of its own for every launch, so that the address sanitizer sees the end.
  shared_memory_ = std::make_unique<char[]>(request.shared_bytes);
  shared_written_ = std::make_unique<uint64_t[]>(request.shared_bytes);
  dynamic_shared_ = {"dynamic shared memory", shared_memory_.get(), request.shared_bytes,
                     shared_written_.get()};
  for (unsigned i = 0; i < count_; ++i) {
    Here& here = threads_[i]->here;
    here.thread = coordinates(i, request.block);
    here.block_size = request.block;
    here.grid_size = request.grid;
  }
}

void Machine::run(const LaunchRequest& request, const std::function<void()>& body) {
  if (running_ != nullptr) throw Fault("a kernel was launched by a kernel");
  prepare(request);
  body_ = &body;
  error_ = nullptr;
  const uint64_t blocks = volume(request.grid);
  std::vector<uint64_t> order(blocks);
  std::iota(order.begin(), order.end(), uint64_t{0});
  if (order_ == Order::descending) std::reverse(order.begin(), order.end());
  if (order_ == Order::shuffled) std::shuffle(order.begin(), order.end(), random_);
  for (const uint64_t block : order) {
    run_block(coordinates(block, request.grid));
    if (error_) break;
  }
  running_ = nullptr;
  current_here = nullptr;
  body_ = nullptr;
  if (error_) std::rethrow_exception(error_);
}

void Machine::run_block(uint3 block) {
  ++current_block;
  finished_ = 0;
  at_barrier_ = 0;
  votes_ = 0;
  ready_.resize(count_);
  first_ready_ = 0;
  ready_count_ = 0;
  for (unsigned i = 0; i < count_; ++i) {
    threads_[i]->here.block = block;
    make_ready(*threads_[i]);
  }
  start_.arrive();
  running_ = take_ready();
  current_here = &running_->here;
  Fiber::switch_to(home_, *running_->fiber);
  if (aborting_) unwind();
  end_.leave();
}

void Machine::thread_loop(Thread& thread) {
  while (!quit_) {
    thread.inside = true;
    start_.leave();
    try {
      (*body_)();
    } catch (const Aborted&) {
      // The block's first fault is kept already.
    } catch (...) {
      if (!error_) error_ = std::current_exception();
      aborting_ = true;
    }
    thread.inside = false;
    end_.arrive();
    if (!aborting_) note_finished(thread);
    dispatch(thread);
  }
}

void Machine::wait(ThreadState state, const std::source_location& place) {
  Thread& thread = *running_;
  thread.state = state;
  thread.place = place;
  dispatch(thread);
  if (aborting_) throw Aborted{};
}

void Machine::dispatch(Thread& from) {
  Thread* const next = aborting_ ? nullptr : take_ready();
  if (next == nullptr) {
    if (!aborting_ && finished_ < count_) note_deadlock();
    Fiber::switch_to(*from.fiber, home_);
    return;
  }
  running_ = next;
  current_here = &next->here;
  if (next != &from) Fiber::switch_to(*from.fiber, *next->fiber);
}

void Machine::make_ready(Thread& thread) {
  thread.state = ThreadState::ready;
  ready_at(ready_count_++) = &thread;
}

Thread* Machine::take_ready() {
  if (ready_count_ == 0) return nullptr;
  --ready_count_;
  if (order_ == Order::ascending) {
    Thread* const next = ready_at(0);
    first_ready_ = (first_ready_ + 1) % count_;
    return next;
  }
  if (order_ == Order::shuffled) std::swap(ready_at(ready_count_), ready_at(random_() % (ready_count_ + 1)));
  return ready_at(ready_count_);
}

void Machine::unwind() {
  for (unsigned i = 0; i < count_; ++i) {
    if (threads_[i]->inside) {
      running_ = threads_[i].get();
      current_here = &running_->here;
      Fiber::switch_to(home_, *running_->fiber);
    }
  }
  for (Warp& warp : warps_) warp.group_count = 0;
  aborting_ = false;
}

int Machine::barrier(Vote vote, bool predicate, const std::source_location& place) {
  Thread& thread = *running_;
  if (finished_ > 0) {
    fault(fmt::format("a barrier that {} of {} threads never reach: they have returned", finished_, count_),
          place);
  }
  if (at_barrier_ > 0) {
    const auto other = std::find_if(threads_.begin(), threads_.begin() + count_, [](const auto& candidate) {
      return candidate->state == ThreadState::at_barrier;
    });
    if (!same_place((*other)->place, place)) {
      fault(fmt::format("waits at one barrier, thread {} at another ({})", to_string((*other)->here.thread),
                        to_string((*other)->place)),
            place);
    }
  }
  if (predicate) ++votes_;
  ++at_barrier_;
  Meeting& meeting = barrier_meetings_[barriers_ % 2];
  meeting.arrive();
  if (at_barrier_ == count_) {
    const auto votes = static_cast<int>(votes_);
    vote_result_ = vote == Vote::any   ? static_cast<int>(votes > 0)
                   : vote == Vote::all ? static_cast<int>(votes_ == count_)
                                       : votes;
    votes_ = 0;
    at_barrier_ = 0;
    ++barriers_;
    for (unsigned i = 0; i < count_; ++i) {
      if (threads_[i].get() != &thread) make_ready(*threads_[i]);
    }
  } else {
    wait(ThreadState::at_barrier, place);
  }
  const int votes = vote_result_;
  meeting.leave();
  return votes;
}

void Machine::note_finished(Thread& thread) {
  thread.state = ThreadState::finished;
  ++finished_;
  if (at_barrier_ > 0) note_deadlock();
  const Warp& warp = warps_[thread.number / warp_size];
  for (unsigned i = 0; i < warp.group_count; ++i) {
    if ((warp.groups[i].mask & thread.bit()) != 0 && !aborting_) note_deadlock();
  }
}

void Machine::note_fault(const Thread& thread, const std::source_location& place, const std::string& what) {
  error_ =
      std::make_exception_ptr(Fault(fmt::format("{}, {}: {}", whereabouts(thread), to_string(place), what)));
  end_.arrive();  // the host reads it
  aborting_ = true;
}

void Machine::note_deadlock() {
  const auto first = threads_.begin();
  const auto last = first + count_;
  const auto waits = std::find_if(first, last, [](const auto& thread) {
    return thread->state == ThreadState::at_barrier || thread->state == ThreadState::in_warp;
  });
  const Thread& waiting = **waits;
  // Who keeps it waiting: somebody of the block, or of the warp's mask, that is elsewhere.
  const auto keeps = std::find_if(first, last, [&](const auto& thread) {
    if (thread->state == ThreadState::ready) return false;
    if (waiting.state == ThreadState::at_barrier) return thread->state != ThreadState::at_barrier;
    if (thread->number / warp_size != waiting.number / warp_size) return false;
    const Warp& warp = warps_[waiting.number / warp_size];
    for (unsigned i = 0; i < warp.group_count; ++i) {
      const WarpGroup& group = warp.groups[i];
      if ((group.arrived & waiting.bit()) != 0) {
        return (group.mask & ~group.arrived & thread->bit()) != 0;
      }
    }
    return false;
  });
  const char* const rule = waiting.state == ThreadState::at_barrier
                               ? "waits at a barrier that not all threads reach"
                               : "waits in an operation of its warp with a lane missing";
  note_fault(waiting, waiting.place,
             keeps == last ? std::string(rule)
                           : fmt::format("{}: thread {} {}", rule, to_string((*keeps)->here.thread),
                                         describe(**keeps)));
}

std::string Machine::describe(const Thread& thread) {
  switch (thread.state) {
    case ThreadState::at_barrier:
      return fmt::format("waits at the barrier of {}", to_string(thread.place));
    case ThreadState::in_warp:
      return fmt::format("waits for its warp at {}", to_string(thread.place));
    case ThreadState::finished:
      return "has returned";
    case ThreadState::ready:
      return "runs";
  }
  return {};
}

std::string Machine::whereabouts(const Thread& thread) const {
  return fmt::format("kernel {}, block {}, thread {}", request_.kernel, to_string(thread.here.block),
                     to_string(thread.here.thread));
}

void set_order(Order order) {
  Machine::of_this_thread().set_order(order);
}

namespace {
Launcher& launcher() {
  static Launcher current = [](void* /*stream*/, const std::function<void()>& kernel) { kernel(); };
  return current;
}
std::atomic<int64_t> clock_ahead{0};

}  // namespace

void set_launcher(Launcher chosen) {
  launcher() = std::move(chosen);
}

void launch(void* stream, const LaunchRequest& request, std::function<void()> body) {
  launcher()(stream, [request, body = std::move(body)] { run(request, body); });
}

uint64_t nanoseconds() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count() + clock_ahead);
}

void set_clock_ahead(int64_t nanoseconds) {
  clock_ahead = nanoseconds;
}

void run(const LaunchRequest& request, const std::function<void()>& body) {
  Machine::of_this_thread().run(request, body);
}

void fault(const std::string& what) {
  throw Fault(fmt::format("{}: {}", Machine::of_this_thread().whereabouts(), what));
}

void fault(const std::string& what, const std::source_location& place) {
  throw Fault(fmt::format("{}, {}: {}", Machine::of_this_thread().whereabouts(), to_string(place), what));
}

int barrier(Vote vote, bool predicate, const std::source_location& place) {
  return Machine::of_this_thread().barrier(vote, predicate, place);
}

uint64_t warp_exchange(WarpOperation operation, uint32_t mask, uint64_t value, int argument, int width,
                       const std::source_location& place) {
  return Machine::of_this_thread().warp_exchange(operation, mask, value, argument, width, place);
}

}  // namespace penstock::simt
