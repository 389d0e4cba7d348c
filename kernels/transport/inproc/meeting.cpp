#include "kernels/transport/inproc/meeting.h"

namespace penstock::transport {

MeetingHall::MeetingHall(size_t ranks) : ranks_(ranks) {
  constexpr size_t at_first = 2;  // a rank may enter the next operation while others leave the last
  for (size_t i = 0; i < at_first; ++i) meetings_.push_back(std::make_unique<Meeting>(ranks));
}

Meeting* MeetingHall::arrive(int rank, const Collective& collective, double seconds,
                             const Interruption& interruption) {
  Meeting* meeting = nullptr;
  {
    const std::lock_guard lock(mutex_);
    meeting = &find(collective.sequence);
    const auto place = static_cast<size_t>(rank);
    meeting->collectives[place] = collective;
    meeting->seconds[place] = seconds;
    meeting->inputs[place] = collective.input.data;
    meeting->outputs[place] = collective.output.data;
    meeting->arrived.fetch_add(1);
  }
  changed_.notify_all();
  changed_.wait([&] { return meeting->arrived.load() == ranks_ || interruption.stopped(); });
  const std::lock_guard lock(mutex_);
  if (meeting->arrived.load() == ranks_) return meeting;
  meeting->arrived.fetch_sub(1);  // now it never becomes complete, for anyone
  return nullptr;
}

void MeetingHall::leave(Meeting& meeting) {
  meeting.finished.fetch_add(1);
  changed_.notify_all();
  changed_.wait([&] { return meeting.finished.load() == ranks_; });
  const std::lock_guard lock(mutex_);
  if (++meeting.left < ranks_) return;
  meeting.open = false;
  meeting.left = 0;
  meeting.arrived.store(0);
  meeting.finished.store(0);
}

void MeetingHall::wake_all() {
  changed_.notify_all();
}

Meeting& MeetingHall::find(uint64_t sequence) {
  Meeting* free = nullptr;
  for (const std::unique_ptr<Meeting>& meeting : meetings_) {
    if (meeting->open && meeting->sequence == sequence) return *meeting;
    if (!meeting->open) free = meeting.get();
  }
  if (free == nullptr) {
    meetings_.push_back(std::make_unique<Meeting>(ranks_));
    free = meetings_.back().get();
  }
  free->open = true;
  free->sequence = sequence;
  return *free;
}

}  // namespace penstock::transport
