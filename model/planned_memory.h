#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/device/device.h"
#include "model/memory_plan.h"

namespace penstock::model {

/// The memory of a plan, reserved and touched: one arena a tag, exactly the planned pieces. Whoever uses a
/// piece claims it by name, once.
class PlannedMemory {
 public:
  /// DeviceError, with nothing reserved, if an arena cannot be had.
  PlannedMemory(Device& device, MemoryPlan plan);
  PlannedMemory(const PlannedMemory&) = delete;
  PlannedMemory& operator=(const PlannedMemory&) = delete;

  /// The piece; null for 0 bytes. UsageError if it was not planned with this size, or was claimed before.
  void* claim(ArenaTag tag, std::string_view name, size_t bytes);
  Tensor claim(ArenaTag tag, std::string_view name, DType dtype, Shape shape);
  /// "tag/name" of what nobody claimed: planned for nothing.
  std::vector<std::string> unclaimed() const;
  const MemoryPlan& plan() const { return plan_; }
  Device& device() const { return device_; }

 private:
  struct Piece {
    void* memory = nullptr;
    size_t bytes = 0;
    bool claimed = false;
  };
  /// Gives its arena back, also where the plan's next one could not be had.
  struct GiveBack {
    Device* device = nullptr;
    void operator()(Arena* arena) const { device->destroy_arena(*arena); }
  };

  Device& device_;
  MemoryPlan plan_;
  std::vector<std::unique_ptr<Arena, GiveBack>> arenas_;
  std::map<std::string, Piece, std::less<>> pieces_;
};

}  // namespace penstock::model
