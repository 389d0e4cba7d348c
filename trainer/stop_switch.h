#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trainer/stop_notice.h"

namespace penstock {

/// What someone outside asked of the run since the last poll.
struct Request {
  bool stop = false;      ///< save, then leave with ExitCode::stopped
  bool save = false;      ///< save and go on
  bool evaluate = false;  ///< evaluate and go on
  std::string act;        ///< what control/act says: an action of the bubble budget; empty: nothing
  std::string reason;  ///< "signal TERM", "control/stop", "run.max_wall_time 00:30:00"; empty: nothing asked
};

/// Collects wishes to stop, save or evaluate: signals, files in the run's control folder, and the time limit.
///
///   USR1, TERM, INT, HUP (no terminal)  stop       control/stop, control/save, control/eval, control/act
///   USR2                                save       (removed once read)
///                                                  max_wall_time: stop while there is time to save
///   second TERM or INT                  leaves at once with ExitCode::terminated or interrupted; what was
///                                       saved stays. A TERM counts as the second one from a second on (it
///                                       is sent to a process and its group at once), and not under Slurm
///   PIPE, XFSZ                          ignored, so that a lost peer or a full disk is an error, not a death
///
/// Handlers only set flags; the step loop polls between steps and long phases poll signalled().
class StopSwitch {
 public:
  /// Installs the handlers (once a process). `control` is polled for files; empty: no files. `notice` goes to
  /// stderr with the first signal that asks to stop; up to 255 bytes of each part.
  /// Throws std::system_error naming the signal if a handler cannot be installed.
  StopSwitch(std::filesystem::path control, std::optional<std::chrono::seconds> max_wall_time,
             const StopNotice& notice = {});
  ~StopSwitch();
  StopSwitch(const StopSwitch&) = delete;
  StopSwitch& operator=(const StopSwitch&) = delete;

  /// Everything asked since the last call. `margin`: how long one more step and a save may take.
  Request poll(std::chrono::duration<double> margin);
  /// Whether somebody asks to stop: by a signal, control/stop or the time limit. Keeps the request. For long
  /// phases that can be left early (evaluation, start-up), and for any thread while the switch is there.
  static bool signalled();
  /// Removes files in the control folder that are older than this program's start, for nobody can have meant
  /// this run of it. A line for people each.
  std::vector<std::string> discard_old();

 private:
  bool asked() const;
  bool take_file(const char* name);
  /// The text of a file that is taken; "" while there is none, or nobody has written into it yet.
  std::string take_text(const char* name);

  std::filesystem::path control_;
  std::optional<std::chrono::seconds> max_wall_time_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace penstock
