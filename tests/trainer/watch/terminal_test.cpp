// The panel on a terminal: a pseudo-terminal whose other end is this test.
#include <csignal>
#include <cstdlib>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/trainer/run_view/run_folder_copy.h"
#include "trainer/watch/watch.h"

namespace penstock::watch {
namespace {

using testing::HasSubstr;
using testing::Not;

class Terminal {
 public:
  explicit Terminal(const std::filesystem::path& run, const char* term = "xterm-256color") {
    winsize size{24, 90, 0, 0};
    process_ = ::forkpty(&end_, nullptr, nullptr, &size);
    if (process_ == 0) {
      ::setenv("TERM", term, 1);
      ::setenv("LC_ALL", "C.UTF-8", 1);
      ::unsetenv("NO_COLOR");
      WatchOptions options;
      options.folder = run;
      options.every = std::chrono::milliseconds(50);
      ::_exit(watch(options));
    }
  }
  ~Terminal() { ::close(end_); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// What was written since the last call, up to `text`, or its end.
  std::string until(const std::string& text) {
    std::string got;
    pollfd watched{end_, POLLIN, 0};
    while (got.find(text) == std::string::npos && ::poll(&watched, 1, 10000) > 0) {
      char bytes[4096];
      const ssize_t count = ::read(end_, bytes, sizeof bytes);
      if (count <= 0) break;  // the other side has ended
      got.append(bytes, static_cast<size_t>(count));
    }
    return got;
  }
  void type(char key) { ASSERT_EQ(::write(end_, &key, 1), 1); }
  void send(int signal) { ASSERT_EQ(::kill(process_, signal), 0); }
  void resize(unsigned short columns, unsigned short rows) {
    winsize size{rows, columns, 0, 0};
    ASSERT_EQ(::ioctl(end_, TIOCSWINSZ, &size), 0);  // sends SIGWINCH
  }
  /// Exit status; −1: ended by a signal.
  int ended() {
    int status = 0;
    EXPECT_EQ(::waitpid(process_, &status, 0), process_);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  bool echoes() const {
    termios now = {};
    EXPECT_EQ(::tcgetattr(end_, &now), 0);
    return (now.c_lflag & (ICANON | ECHO)) == (ICANON | ECHO);
  }

 private:
  int end_ = -1;
  pid_t process_ = -1;
};

const char* const kRestored = "\x1b[?25h\x1b[?1049l";

TEST(TerminalSession, AKeyLeavesAndTheTerminalIsAsItWas) {
  Terminal terminal(run_view::small_run());
  const std::string drawn = terminal.until("exit code 0");
  EXPECT_THAT(drawn, HasSubstr("\x1b[?1049h\x1b[?25l"));
  EXPECT_THAT(drawn, HasSubstr("finished"));
  EXPECT_THAT(drawn, HasSubstr("q quits"));
  EXPECT_FALSE(terminal.echoes());
  terminal.type('q');
  EXPECT_THAT(terminal.until(kRestored), HasSubstr(kRestored));
  EXPECT_EQ(terminal.ended(), 0);
}

TEST(TerminalSession, SignalsLeaveItAsItWas) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    Terminal terminal(run_view::small_run());
    terminal.until("exit code 0");
    terminal.send(signal);
    EXPECT_THAT(terminal.until(kRestored), HasSubstr(kRestored));
    EXPECT_EQ(terminal.ended(), signal == SIGINT ? 0 : 128 + signal);
  }
}

TEST(TerminalSession, FollowsTheTerminalsSize) {
  Terminal terminal(run_view::small_run());
  EXPECT_THAT(terminal.until("exit code 0"), HasSubstr(" to "));  // ranges, where there is room
  terminal.resize(42, 10);
  EXPECT_THAT(terminal.until("idle"), Not(HasSubstr(" to ")));
  terminal.type('q');
  EXPECT_EQ(terminal.ended(), 0);
}

TEST(TerminalSession, DrawsOnlyWhatChanged) {
  const run_view::RunFolderCopy folder;
  Terminal terminal(folder.path());
  terminal.until("exit code 0");
  folder.append("events.jsonl", "{\"event\": \"news\", \"step\": 41}\n");
  const std::string drawn = terminal.until("news");
  EXPECT_THAT(drawn, HasSubstr("news"));
  EXPECT_THAT(drawn, Not(HasSubstr("loss")));
  EXPECT_THAT(drawn, Not(HasSubstr("finished")));
  terminal.type('q');
  EXPECT_EQ(terminal.ended(), 0);
}

TEST(TerminalSession, ATerminalThatCannotBeRedrawnGetsPlainFrames) {
  Terminal terminal(run_view::small_run(), "dumb");
  const std::string drawn = terminal.until("exit code 0");
  EXPECT_THAT(drawn, Not(HasSubstr("\x1b")));
  EXPECT_EQ(terminal.ended(), 0);  // the run has ended
}

}  // namespace
}  // namespace penstock::watch
