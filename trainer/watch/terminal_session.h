#pragma once

#include <chrono>
#include <csignal>
#include <string>
#include <vector>

#include <termios.h>

#include "trainer/watch/line.h"

namespace penstock::watch {

/// What standard output can show: colours where it is a terminal that has them and NO_COLOR is not set, UTF-8
/// where the locale says so.
Abilities abilities_of_output(bool plain);
/// Whether a panel can be redrawn on standard output.
bool can_redraw(bool plain);

/// Takes the terminal over for a panel that is redrawn: its other screen, no cursor, keys at once. The
/// terminal is as it was before after the session's end, whatever ends it: a key, a signal, an exception; and
/// while the process is suspended. One at a time.
class TerminalSession {
 public:
  /// std::system_error where the signals cannot be had.
  TerminalSession();
  ~TerminalSession();
  TerminalSession(const TerminalSession&) = delete;
  TerminalSession& operator=(const TerminalSession&) = delete;

  /// Rows from the top; only those that changed are written. False: the terminal is gone.
  bool draw(const std::vector<std::string>& rows);

  enum class Wake { time, resized, quit };
  /// Waits for a key, a signal, or so long. After `quit` signal() says which signal it was, 0: the key q.
  Wake wait(std::chrono::milliseconds longest);
  int signal() const { return signal_; }

  int columns() const { return columns_; }
  int rows() const { return rows_; }

 private:
  void enter();
  void leave();
  void measure();
  void suspend();

  bool keys_ = false;  ///< standard input is a terminal
  termios before_ = {};
  bool inside_ = false;
  int columns_ = 80;
  int rows_ = 24;
  int signal_ = 0;
  std::vector<std::string> drawn_;
  std::vector<struct sigaction> handlers_;  ///< before the session, of the signals it took
};

}  // namespace penstock::watch
