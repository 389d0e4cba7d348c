#include "kernels/cpu/fibers.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include <cxxabi.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "kernels/device/error.h"

namespace penstock::cpu {

namespace {

constexpr size_t stack_bytes = size_t{512} << 10U;

/// Memory with a page below it that must not be touched.
class Stack {
 public:
  Stack() : guard_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    memory_ = mmap(nullptr, guard_ + stack_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (memory_ == MAP_FAILED || mprotect(memory_, guard_, PROT_NONE) != 0) {
      throw DeviceError(fmt::format("cannot reserve a stack of {} bytes for a fiber: {}", stack_bytes,
                                    std::strerror(errno)));
    }
  }
  ~Stack() { munmap(memory_, guard_ + stack_bytes); }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  void* begin() const { return static_cast<char*>(memory_) + guard_; }

 private:
  size_t guard_;
  void* memory_ = nullptr;
};

/// A thread's exceptions in flight: the first two members of __cxa_eh_globals (Itanium C++ ABI, 2.2.2). They
/// belong to the fiber.
struct Exceptions {
  void* caught = nullptr;
  unsigned int uncaught = 0;
};

void exchange_exceptions(Exceptions& saved, const Exceptions& loaded) {
  void* const globals = abi::__cxa_get_globals();
  std::memcpy(&saved, globals, sizeof(saved));
  std::memcpy(globals, &loaded, sizeof(loaded));
}

bool always(void*) {
  return true;
}

}  // namespace

struct Fibers::Fiber {
  ucontext_t context{};
  std::unique_ptr<Stack> stack;
  const std::function<void()>* body = nullptr;
  Exceptions exceptions;
  size_t index = 0;
  bool ended = false;
  Ready ready = always;
  void* ready_context = nullptr;
};

thread_local Fibers* Fibers::current_ = nullptr;

bool Fibers::supported() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#else
  return true;
#endif
}

Fibers::Fibers(std::span<const std::function<void()>> bodies)
    : caller_(std::make_unique<Fiber>()), alive_(bodies.size()) {
  for (const std::function<void()>& body : bodies) {
    auto fiber = std::make_unique<Fiber>();
    fiber->stack = std::make_unique<Stack>();
    fiber->body = &body;
    fiber->index = fibers_.size();
    if (getcontext(&fiber->context) != 0)
      throw DeviceError(fmt::format("cannot make a fiber: {}", std::strerror(errno)));
    fiber->context.uc_stack.ss_sp = fiber->stack->begin();
    fiber->context.uc_stack.ss_size = stack_bytes;
    makecontext(&fiber->context, enter, 0);
    fibers_.push_back(std::move(fiber));
  }
}

Fibers::~Fibers() = default;

void Fibers::run(std::span<const std::function<void()>> bodies) {
  if (current_ != nullptr) throw UsageError("fibers of a fiber: run() was called in a body");
  if (bodies.empty()) return;
  Fibers fibers(bodies);
  fibers.running_ = fibers.caller_.get();
  current_ = &fibers;
  fibers.switch_to(*fibers.fibers_.front());
  current_ = nullptr;
}

void Fibers::enter() {
  Fibers& fibers = *current_;
  Fiber& self = *fibers.running_;
  (*self.body)();
  self.ended = true;
  fibers.switch_to(--fibers.alive_ == 0 ? *fibers.caller_ : fibers.next());
}

void Fibers::wait(Ready ready, void* context) {
  Fiber& self = *running_;
  self.ready = ready;
  self.ready_context = context;
  Fiber& other = next();
  if (&other != &self) switch_to(other);
}

Fibers::Fiber& Fibers::next() {
  const size_t count = fibers_.size();
  for (;;) {
    for (size_t i = 1; i <= count; ++i) {
      Fiber& fiber = *fibers_[(running_->index + i) % count];
      if (!fiber.ended && fiber.ready(fiber.ready_context)) return fiber;
    }
    constexpr std::chrono::microseconds poll(50);  // other threads are at work
    std::this_thread::sleep_for(poll);
  }
}

void Fibers::switch_to(Fiber& fiber) {
  Fiber& self = *std::exchange(running_, &fiber);
  exchange_exceptions(self.exceptions, fiber.exceptions);
  // Returns when something switches back; it cannot fail between two valid contexts.
  static_cast<void>(swapcontext(&self.context, &fiber.context));
}

}  // namespace penstock::cpu
