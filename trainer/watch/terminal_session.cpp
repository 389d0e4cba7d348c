#include "trainer/watch/terminal_session.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <langinfo.h>
#include <locale.h>  // NOLINT(modernize-deprecated-headers): newlocale
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace penstock::watch {
namespace {

constexpr std::array<int, 6> kSignals{SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP};

// Signals arrive as bytes in a pipe: nothing else may be done in a handler.
std::array<int, 2> signal_pipe{-1, -1};

void note_signal(int number) {
  const int error = errno;
  const auto byte = static_cast<unsigned char>(number);
  // A full pipe holds signals enough.
  if (::write(signal_pipe[1], &byte, 1) < 0) errno = error;
  errno = error;
}

bool write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = ::write(STDOUT_FILENO, text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    text.remove_prefix(static_cast<size_t>(done));
  }
  return true;
}

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool utf8_locale() {
  const locale_t locale = ::newlocale(LC_CTYPE_MASK, "", nullptr);
  if (locale == nullptr) return false;
  const bool utf8 = std::string_view(::nl_langinfo_l(CODESET, locale)) == "UTF-8";
  ::freelocale(locale);
  return utf8;
}

}  // namespace

Abilities abilities_of_output(bool plain) {
  const std::string_view term = variable("TERM");
  const bool colours = !term.empty() && term != "dumb" && term != "linux" && term.substr(0, 2) != "vt";
  Abilities made;
  made.colour = !plain && colours && variable("NO_COLOR").empty() && ::isatty(STDOUT_FILENO) == 1;
  made.utf8 = utf8_locale();
  return made;
}

bool can_redraw(bool plain) {
  const std::string_view term = variable("TERM");
  return !plain && !term.empty() && term != "dumb" && ::isatty(STDOUT_FILENO) == 1;
}

TerminalSession::TerminalSession() : keys_(::isatty(STDIN_FILENO) == 1), handlers_(kSignals.size()) {
  if (::pipe2(signal_pipe.data(), O_NONBLOCK | O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "watch: cannot make a pipe for signals");
  struct sigaction action = {};
  action.sa_handler = note_signal;
  ::sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kSignals.size(); ++i) {
    if (::sigaction(kSignals[i], &action, &handlers_[i]) != 0)
      throw std::system_error(errno, std::generic_category(),
                              fmt::format("watch: cannot take signal {}", kSignals[i]));
  }
  if (keys_ && ::tcgetattr(STDIN_FILENO, &before_) != 0) keys_ = false;
  enter();
}

TerminalSession::~TerminalSession() {
  leave();
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &handlers_[i], nullptr);
  ::close(signal_pipe[0]);
  ::close(signal_pipe[1]);
  signal_pipe = {-1, -1};
}

void TerminalSession::enter() {
  if (keys_) {
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);  // signals by keys stay
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  inside_ = true;
  // Other screen, no cursor, no wrapping.
  write_all("\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J");
  drawn_.clear();
  measure();
}

void TerminalSession::leave() {
  if (!inside_) return;
  inside_ = false;
  write_all("\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l");
  if (keys_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

void TerminalSession::measure() {
  winsize size = {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return;
  columns_ = std::max<int>(20, size.ws_col);
  rows_ = std::max<int>(2, size.ws_row);
}

void TerminalSession::suspend() {
  leave();
  ::raise(SIGSTOP);
  enter();
}

bool TerminalSession::draw(const std::vector<std::string>& rows) {
  std::string text = "\x1b[?2026h";  // shown at once, where the terminal knows how
  bool changed = false;
  for (size_t row = 0; row < std::max(rows.size(), drawn_.size()); ++row) {
    const std::string& now = row < rows.size() ? rows[row] : std::string();
    if (row < drawn_.size() && drawn_[row] == now) continue;
    changed = true;
    text += fmt::format("\x1b[{};1H{}\x1b[0m\x1b[K", row + 1, now);
  }
  drawn_ = rows;
  return !changed || write_all(text + "\x1b[?2026l");
}

TerminalSession::Wake TerminalSession::wait(std::chrono::milliseconds longest) {
  const auto end = std::chrono::steady_clock::now() + longest;
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    std::array<pollfd, 2> watched{pollfd{signal_pipe[0], POLLIN, 0},
                                  pollfd{keys_ ? STDIN_FILENO : -1, POLLIN, 0}};
    const int ready = ::poll(watched.data(), watched.size(), static_cast<int>(std::max<int64_t>(0, left)));
    if (ready == 0) return Wake::time;
    if (ready < 0 && errno != EINTR) return Wake::quit;
    unsigned char byte = 0;
    while (::read(signal_pipe[0], &byte, 1) == 1) {
      if (byte == SIGTSTP) {
        suspend();
        return Wake::resized;
      }
      if (byte == SIGWINCH) {
        measure();
        drawn_.clear();
        write_all("\x1b[2J");
        return Wake::resized;
      }
      signal_ = byte;
      return Wake::quit;
    }
    if (ready > 0 && (watched[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
      if (::read(STDIN_FILENO, &byte, 1) != 1 || byte == 4)
        return Wake::quit;  // its end: the terminal is gone
      if (byte == 'q' || byte == 'Q') return Wake::quit;
    }
  }
}

}  // namespace penstock::watch
