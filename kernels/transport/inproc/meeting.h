#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/cpu/wait_point.h"
#include "kernels/transport/communicator.h"
#include "kernels/transport/interruption.h"

namespace penstock::transport {

/// One collective operation while its ranks come, work on each other's memory, and leave.
struct Meeting {
  explicit Meeting(size_t ranks)
      : collectives(ranks), seconds(ranks, 0), inputs(ranks, nullptr), outputs(ranks, nullptr) {}

  uint64_t sequence = 0;
  bool open = false;
  std::atomic<size_t> arrived{0};
  std::atomic<size_t> finished{0};
  size_t left = 0;
  // By rank, complete once all have arrived.
  std::vector<Collective> collectives;
  std::vector<double> seconds;  ///< each stream's time on arrival
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
};

/// Where the ranks of a communicator meet, each operation by its number.
class MeetingHall {
 public:
  explicit MeetingHall(size_t ranks);

  /// Joins the meeting of `collective.sequence` and returns once every rank is there; nullptr if the world
  /// was stopped before that. After a return that is not null every rank gets one too, so all of them work.
  Meeting* arrive(int rank, const Collective& collective, double seconds, const Interruption& interruption);
  /// Our work is done; returns once everybody's is. The meeting is over for us then.
  void leave(Meeting& meeting);
  void wake_all();

 private:
  Meeting& find(uint64_t sequence);

  const size_t ranks_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Meeting>> meetings_;  ///< open ones, and free ones to use again
  cpu::WaitPoint changed_;
};

}  // namespace penstock::transport
