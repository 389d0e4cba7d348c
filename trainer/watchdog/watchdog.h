#pragma once

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "kernels/transport/world.h"
#include "trainer/job/watchdog_section.h"
#include "trainer/watchdog/meeting.h"
#include "trainer/watchdog/progress.h"
#include "trainer/watchdog/roll_call.h"

namespace penstock::watchdog {

/// What a rank's watchdog goes by.
struct Setting {
  WatchdogSection limits;
  std::string address;               ///< comm.address
  std::filesystem::path run;         ///< the run's folder
  std::function<bool()> stop_asked;  ///< whether somebody asked this process to stop; any thread
};

/// A rank's control channel and time limits: a thread that says once a second where the rank is, hears where
/// the others are, and ends the process where the run cannot go on:
///
///   70  a phase is over its limit; a rank is gone, that is, its connection ended without a word
///   75  the run was asked to stop in its start, and does not come to it
///   the code of a rank that left with an error, where this one still hangs 5 s later
///
/// Every rank then says where it is, writes the calls of its threads and its last actions into the run's
/// folder, and leaves; the lowest that is left writes the event and the status. It shares nothing with the
/// transport but the exchange of an address at the start, so that it works while MPI or NCCL hang. Time in
/// which the process did not run (stopped, suspended, swapped out) counts against nobody. SIGQUIT: it writes
/// calls and actions, and the run goes on.
class Watchdog {
 public:
  /// Collective over the world. `progress` outlives it.
  Watchdog(const Progress& progress, transport::World& world, Setting setting);
  /// Says that all is well.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// Why not every rank is heard; empty: they are. The same on every rank.
  const std::string& failure() const { return channel_failure_; }

  /// This rank leaves with an error, which the others are told. `echo`: it may be the echo of another rank's
  /// end, of which the channel is then about to hear: waits for that, up to a second and a half.
  void failed(int code, const std::string& reason, bool echo);

 private:
  /// Everybody is to leave, once it has been waited for what others may have to say.
  struct Verdict {
    double due = 0;
    int code = 0;
    std::string why;  ///< what happened; who is to blame is found when it is due
  };

  void run();
  void receive(double now);
  void take(int from, const Message& message, double now);
  void lose(int from, double now);
  void beat(double now);
  void check_limit(double now);
  void check_stop(double now);
  void check_verdict(double now);
  void check_quit();
  void pass_on_own_failure();
  void decide(double due, int code, const std::string& why);
  [[noreturn]] void leave(int code, const std::string& text);

  Heartbeat own(double now) const;
  bool hub() const { return rank_ == 0; }
  bool alone() const;
  void send_all(const Message& message, int but = -1);

  const Progress& progress_;
  const int rank_;
  const Setting setting_;
  std::vector<LineLink> links_;
  std::string channel_failure_;
  RollCall calls_;

  // The thread's.
  double woken_ = 0;
  double next_beat_ = 0;
  Progress::Clock::time_point phase_since_;
  double excused_ = 0;  ///< seconds of the phase in which the process did not run
  bool expired_ = false;
  std::optional<double> stop_since_;
  std::optional<Verdict> verdict_;
  int quits_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  bool foreign_failure_ = false;        ///< another rank said that it leaves with an error
  std::optional<Message> own_failure_;  ///< to be sent
  int alarm_ = -1;                      ///< eventfd
  std::thread thread_;
};

}  // namespace penstock::watchdog
