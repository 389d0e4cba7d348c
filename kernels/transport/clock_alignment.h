#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/device/device.h"
#include "kernels/transport/world.h"

namespace penstock::transport {

/// Whether the clocks of all ranks' devices show the same time: ranks that are threads of this process, a
/// single rank, and virtual clocks.
bool ranks_share_clock(const World& world, const Device& device);

/// What the device's clock shows against rank 0's, so that what happened on several ranks can stand on one
/// time line.
///
/// A measurement is a series of ping-pongs between rank 0 and every other rank. Rank 0's clock at a ping's
/// departure and at its answer's arrival encloses our clock at the answer: the narrowest pair gives the
/// offset, and half its width is a bound of the error, whatever the transport did in between. Clocks drift:
/// between two measurements the offset is interpolated, so that a step is best read after the measurement
/// that follows it.
class ClockAlignment {
 public:
  /// Collective; measures nothing yet. Where clocks are `shared` every offset is exactly 0 and nothing is
  /// ever sent. `world` and `device` outlive it.
  ClockAlignment(World& world, Device& device, bool shared);
  ClockAlignment(World& world, Device& device)
      : ClockAlignment(world, device, ranks_share_clock(world, device)) {}

  /// Collective, and waits, some ten microseconds for each other rank: where ranks meet anyway, never inside
  /// a step.
  void measure();

  /// Our device's clock minus rank 0's, at our time `seconds`. The nearest measurement's before the first
  /// and after the last that are kept. UsageError before the first measurement.
  double offset(double seconds) const;
  /// Bound of the error of offset(), both in seconds; drift after the last measurement is not in it.
  double error(double seconds) const;
  /// Rank 0's clock when ours shows `seconds`.
  double to_rank_zero(double seconds) const { return seconds - offset(seconds); }

  static constexpr size_t kept_measurements = 16;

 private:
  struct Measurement {
    double at = 0;  ///< on our clock
    double offset = 0;
    double error = 0;
  };

  void ask_all();
  void answer();
  void keep(const Measurement& measurement);
  /// The measurements before and after; the same one twice outside of those kept.
  std::pair<const Measurement*, const Measurement*> around(double seconds) const;

  World& world_;
  Device& device_;
  const bool shared_;
  std::unique_ptr<Communicator> all_;  ///< none where clocks are shared
  std::vector<Measurement> kept_;      ///< by time
};

}  // namespace penstock::transport
