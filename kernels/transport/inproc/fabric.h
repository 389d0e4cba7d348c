#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cpu/wait_point.h"
#include "kernels/transport/inproc/inproc_world.h"
#include "kernels/transport/inproc/mailbox.h"
#include "kernels/transport/inproc/meeting.h"
#include "kernels/transport/inproc/releaser.h"
#include "kernels/transport/inproc/signalled_hub.h"
#include "kernels/transport/interruption.h"

namespace penstock::transport {

/// What the ranks of one communicator share.
struct Hub {
  Hub(std::string hub_name, std::vector<int> hub_members);

  const std::string name;
  const std::vector<int> members;
  const std::unique_ptr<Mailbox[]> mailboxes;  ///< one a rank
  MeetingHall meetings;
  SignalledHub signalled;  ///< where the ranks' streams are devices'
};

/// What all ranks of a process share.
class Fabric {
 public:
  Fabric(int ranks, const InprocOptions& options);

  bool buffered() const { return buffered_; }
  const LinkModel& links() const { return links_; }
  /// Of the `message`-th message between the two.
  Link link(int source, int destination, uint32_t message) const {
    Link link = links_.between(source, destination);
    if (delay_) link.latency_seconds += delay_(source, destination, message);
    return link;
  }
  const std::shared_ptr<Interruption>& interruption() const { return interruption_; }
  Releaser& releaser() { return releaser_; }

  /// Every rank's bytes, once every rank has given them. DeviceError if the world is stopped meanwhile.
  std::vector<std::string> share(int rank, std::string_view bytes);
  /// The hub of the `index`-th communicator of the world; the first caller makes it.
  Hub& hub(size_t index, const std::string& name, const std::vector<int>& members);
  /// UsageError unless all streams that are ever used have the same kind of clock, and a buffered world's a
  /// real one.
  void check_clock(const std::string& stream, bool on_virtual_clock);

 private:
  enum class ClockKind : int { unknown, real, on_virtual };

  void wake_all();

  const int ranks_;
  const bool buffered_;
  const LinkModel links_;
  const std::function<double(int, int, uint32_t)> delay_;
  std::atomic<ClockKind> clock_{ClockKind::unknown};
  std::shared_ptr<Interruption> interruption_;

  std::mutex mutex_;
  std::vector<std::unique_ptr<Hub>> hubs_;
  cpu::WaitPoint shared_;
  int given_ = 0;
  std::atomic<uint64_t> round_{0};
  std::vector<std::string> giving_;
  std::shared_ptr<const std::vector<std::string>> result_;

  Releaser releaser_;
};

}  // namespace penstock::transport
