#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <source_location>
#include <string>
#include <vector>

#include "tests/simt/fiber.h"
#include "tests/simt/machine.h"

/// The machine's own state: the threads of the block that runs now, and what each waits for.
namespace penstock::simt {

constexpr unsigned warp_size = 32;

enum class ThreadState : uint8_t { ready, at_barrier, in_warp, finished };

/// One CUDA thread of the running block. Its fiber serves block after block.
struct Thread {
  Here here;
  unsigned number = 0;  ///< in its block
  ThreadState state = ThreadState::finished;
  bool inside = false;  ///< in the kernel's code
  std::source_location place;
  uint64_t value = 0;  ///< what it gives to the warp's operation, then what it receives
  int argument = 0;
  std::unique_ptr<Fiber> fiber;

  unsigned lane() const { return number % warp_size; }
  uint32_t bit() const { return uint32_t{1} << lane(); }
};

/// An operation of the lanes of `mask` that some of them have begun.
struct WarpGroup {
  uint32_t mask;
  uint32_t arrived;
  WarpOperation operation;
  int width;
  std::source_location place;
};

/// No memory is taken or moved by library calls while fibers run: the thread sanitizer watches those, and
/// would take the machine's own book-keeping for the kernel's.
struct Warp {
  std::array<WarpGroup, warp_size> groups;  ///< a lane waits in one at most
  unsigned group_count = 0;
  Meeting meetings[2];
  unsigned synchronised = 0;
};

class Machine {
 public:
  Machine() = default;
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  static Machine& of_this_thread();

  void set_order(Order order) { order_ = order; }
  void run(const LaunchRequest& request, const std::function<void()>& body);

  int barrier(Vote vote, bool predicate, const std::source_location& place);
  uint64_t warp_exchange(WarpOperation operation, uint32_t mask, uint64_t value, int argument, int width,
                         const std::source_location& place);
  const SharedRegion& dynamic_shared() const { return dynamic_shared_; }
  /// "kernel k, block (1,0,0), thread (7,0,0)" of the running thread.
  std::string whereabouts() const { return whereabouts(*running_); }

 private:
  void prepare(const LaunchRequest& request);
  void run_block(uint3 block);
  void thread_loop(Thread& thread);
  /// The running thread stops here until it is made ready.
  void wait(ThreadState state, const std::source_location& place);
  /// Switches from a thread that waits or has finished to one that is ready.
  void dispatch(Thread& from);
  void make_ready(Thread& thread);
  Thread* take_ready();
  Thread*& ready_at(unsigned index) { return ready_[(first_ready_ + index) % count_]; }
  void note_finished(Thread& thread);
  void note_fault(const Thread& thread, const std::source_location& place, const std::string& what);
  void note_deadlock();
  void unwind();
  std::string whereabouts(const Thread& thread) const;
  static std::string describe(const Thread& thread);

  WarpGroup& join_group(Warp& warp, Thread& thread, WarpOperation operation, uint32_t mask, int width,
                        const std::source_location& place);
  void complete(Warp& warp, const WarpGroup& group, unsigned first_thread);
  uint64_t result(const WarpGroup& group, unsigned first_thread, const Thread& thread) const;

  Order order_ = Order::ascending;
  std::mt19937_64 random_;
  LaunchRequest request_;
  const std::function<void()>* body_ = nullptr;
  Fiber home_;
  std::vector<std::unique_ptr<Thread>> threads_;  ///< as many as the largest block had
  unsigned count_ = 0;                            ///< threads of this launch's blocks
  std::vector<Warp> warps_;
  Thread* running_ = nullptr;
  std::vector<Thread*> ready_;  ///< a ring with room for all
  unsigned first_ready_ = 0;
  unsigned ready_count_ = 0;
  unsigned finished_ = 0;
  unsigned at_barrier_ = 0;
  unsigned votes_ = 0;
  unsigned barriers_ = 0;
  int vote_result_ = 0;
  Meeting start_;
  Meeting end_;
  Meeting barrier_meetings_[2];
  std::exception_ptr error_;
  bool aborting_ = false;
  bool quit_ = false;
  std::unique_ptr<char[]> shared_memory_;
  std::unique_ptr<uint64_t[]> shared_written_;
  SharedRegion dynamic_shared_;
};

/// Counts the blocks of this host thread's launches: what shared memory was written by.
extern thread_local constinit uint64_t current_block;

bool same_place(const std::source_location& a, const std::source_location& b);
std::string to_string(const std::source_location& place);

/// Thrown in the threads of a block that does not go on.
struct Aborted {};

}  // namespace penstock::simt
