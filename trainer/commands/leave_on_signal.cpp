#include "trainer/commands/leave_on_signal.h"

#include <cerrno>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include "trainer/job/exit_code.h"

namespace penstock::commands {
namespace {

ExitCode code_of(int signal) {
  if (signal == SIGINT) return ExitCode::interrupted;
  return signal == SIGUSR1 ? ExitCode::stopped : ExitCode::terminated;
}

void leave(int signal) {
  static constexpr std::string_view message =
      "\npenstock: asked to stop: leaving at once, there is nothing to save\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, message.data(), message.size());
  _exit(static_cast<int>(code_of(signal)));
}

void install(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  if (sigaction(signal, &action, nullptr) != 0) {
    throw std::system_error(errno, std::generic_category(),
                            fmt::format("installing the handler of SIG{}", sigabbrev_np(signal)));
  }
}

}  // namespace

void leave_on_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) install(signal, leave);
  if (isatty(STDIN_FILENO) == 0) install(SIGHUP, leave);
  install(SIGUSR2, SIG_IGN);
}

}  // namespace penstock::commands
