#include "tests/simt/fiber.h"

#include <utility>

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>

#ifdef PENSTOCK_SIMT_ADDRESS
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef PENSTOCK_SIMT_THREAD
#include <sanitizer/tsan_interface.h>
#endif

namespace penstock::simt {
namespace {

#ifdef PENSTOCK_SIMT_ADDRESS
constexpr size_t stack_bytes = size_t{1} << 18;  // redzones make frames large
#else
constexpr size_t stack_bytes = size_t{1} << 16;
#endif

}  // namespace

struct Fiber::State {
  boost::context::fiber context;
  // What the sanitizers want to know.
  const void* stack_bottom = nullptr;
  size_t stack_size = 0;
  void* fake_stack = nullptr;
  void* shadow_thread = nullptr;
  bool owns_shadow_thread = false;

  void leave_for(State& to, bool for_good);
  void arrive(boost::context::fiber&& left_context);
};

namespace {
/// The fiber that the thread ran on before the one it runs on now.
thread_local Fiber* left = nullptr;
}  // namespace

void Fiber::State::leave_for([[maybe_unused]] State& to, [[maybe_unused]] bool for_good) {
#ifdef PENSTOCK_SIMT_ADDRESS
  __sanitizer_start_switch_fiber(for_good ? nullptr : &fake_stack, to.stack_bottom, to.stack_size);
#endif
#ifdef PENSTOCK_SIMT_THREAD
  __tsan_switch_to_fiber(to.shadow_thread, __tsan_switch_to_fiber_no_sync);
#endif
}

void Fiber::State::arrive(boost::context::fiber&& left_context) {
#ifdef PENSTOCK_SIMT_ADDRESS
  __sanitizer_finish_switch_fiber(fake_stack, &left->state_->stack_bottom, &left->state_->stack_size);
#endif
  left->state_->context = std::move(left_context);
}

Fiber::Fiber() : state_(std::make_unique<State>()) {
#ifdef PENSTOCK_SIMT_THREAD
  state_->shadow_thread = __tsan_get_current_fiber();
#endif
}

Fiber::Fiber(Fiber& home, std::function<void()> body) : state_(std::make_unique<State>()) {
#ifdef PENSTOCK_SIMT_THREAD
  state_->shadow_thread = __tsan_create_fiber(0);
  state_->owns_shadow_thread = true;
#endif
  boost::context::protected_fixedsize_stack stacks(stack_bytes);
  const boost::context::stack_context stack = stacks.allocate();
  state_->stack_bottom = static_cast<const char*>(stack.sp) - stack.size;
  state_->stack_size = stack.size;
  state_->context =
      boost::context::fiber(std::allocator_arg, boost::context::preallocated(stack.sp, stack.size, stack),
                            stacks, [this, &home, body = std::move(body)](boost::context::fiber&& caller) {
                              state_->arrive(std::move(caller));
                              body();
                              left = this;
                              state_->leave_for(*home.state_, true);
                              return std::move(home.state_->context);
                            });
}

Fiber::~Fiber() {
#ifdef PENSTOCK_SIMT_THREAD
  if (state_->owns_shadow_thread) __tsan_destroy_fiber(state_->shadow_thread);
#endif
}

void Fiber::switch_to(Fiber& from, Fiber& to) {
  left = &from;
  from.state_->leave_for(*to.state_, false);
  boost::context::fiber caller = std::move(to.state_->context).resume();
  from.state_->arrive(std::move(caller));
}

void Meeting::arrive() {
#ifdef PENSTOCK_SIMT_THREAD
  __tsan_release(&address_);
#endif
}

void Meeting::leave() {
#ifdef PENSTOCK_SIMT_THREAD
  __tsan_acquire(&address_);
#endif
}

}  // namespace penstock::simt
