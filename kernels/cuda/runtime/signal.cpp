#include "kernels/cuda/runtime/signal.h"

#include <algorithm>
#include <atomic>
#include <typeinfo>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kernels/cuda/runtime/pinned_memory.h"
#include "kernels/device/error.h"

namespace penstock::cuda {
namespace {

constexpr size_t cell_bytes = 64;  // a cache line each: pollers must not disturb one another
constexpr size_t cells_a_block = 64;

uint64_t load(const SignalCell& cell) {
  return std::atomic_ref<uint64_t>(*cell.value).load(std::memory_order_acquire);
}

/// Cells nobody uses. They are never given back: work of a signal that is gone may still name them.
class SignalCells {
 public:
  static SignalCells& instance() {
    static auto* const cells = new SignalCells;  // outlives every device
    return *cells;
  }

  SignalCell take(const std::string& purpose) {
    const std::lock_guard lock(mutex_);
    // All writes that were queued for its last owner have happened.
    auto found = std::find_if(free_.rbegin(), free_.rend(),
                              [](const SignalCell& cell) { return load(cell) >= cell.promised; });
    if (found == free_.rend()) {
      auto* block = static_cast<char*>(reserve_pinned_memory(purpose, cells_a_block * cell_bytes));
      for (size_t i = 0; i < cells_a_block; ++i)
        free_.push_back({reinterpret_cast<uint64_t*>(block + i * cell_bytes), 0});
      found = free_.rbegin();
    }
    const SignalCell cell = *found;
    *found = free_.back();
    free_.pop_back();
    return cell;
  }

  void give_back(const SignalCell& cell) {
    const std::lock_guard lock(mutex_);
    free_.push_back(cell);
  }

 private:
  std::mutex mutex_;
  std::vector<SignalCell> free_;
};

}  // namespace

CudaSignal::CudaSignal(std::string name, int rank)
    : name_(std::move(name)),
      cell_(SignalCells::instance().take(fmt::format("rank {}, signal \"{}\"", rank, name_))),
      base_(load(cell_)) {
  cell_.promised = base_;
}

CudaSignal::~CudaSignal() {
  // Late waiters of a released one go on for ever.
  if (!released_) SignalCells::instance().give_back(cell_);
}

CudaSignal& CudaSignal::of(Signal& signal) {
  return const_cast<CudaSignal&>(of(std::as_const(signal)));
}

const CudaSignal& CudaSignal::of(const Signal& signal) {
  if (typeid(signal) != typeid(CudaSignal)) {
    throw UsageError(fmt::format(
        "signal \"{}\" belongs to another kind of device; a CUDA stream takes signals made by a CUDA device",
        signal.name()));
  }
  return static_cast<const CudaSignal&>(signal);
}

uint64_t CudaSignal::value() const {
  return load(cell_) - base_;
}

void CudaSignal::release() {
  // GPUs compare the difference as a signed number.
  constexpr uint64_t beyond_all = uint64_t{1} << 62;
  released_ = true;
  std::atomic_ref<uint64_t>(*cell_.value).store(beyond_all, std::memory_order_release);
}

void CudaSignal::promise(uint64_t value) {
  const std::lock_guard lock(mutex_);
  if (in_cell(value) <= cell_.promised) {
    throw UsageError(
        fmt::format("signal \"{}\": a write of {} was queued after a write of {}; values must rise", name_,
                    value, cell_.promised - base_));
  }
  cell_.promised = in_cell(value);
}

}  // namespace penstock::cuda
