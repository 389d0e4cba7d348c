#include "trainer/stop_switch.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <mutex>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trainer/job/exit_code.h"

namespace penstock {
namespace {

// Written by handlers, read by poll(): nothing else is safe in a handler.
volatile sig_atomic_t stop_signal = 0;
volatile sig_atomic_t save_signal = 0;

// What handlers print: they may read memory, but not allocate.
struct Text {
  std::array<char, 256> bytes{};
  size_t size = 0;
  void set(std::string_view text) {
    size = std::min(text.size(), bytes.size() - 1);
    std::memcpy(bytes.data(), text.data(), size);
  }
  void print() const { [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, bytes.data(), size); }
};
Text first_notice;
Text impatience_notice;

timespec asked_at{};     // when stop_signal was first set
bool two_terms = false;  // StopNotice's

// Somebody has asked before, and does not want to wait any longer.
bool is_hurry(int signal) {
  if (stop_signal != SIGINT && stop_signal != SIGTERM) return false;
  if (signal == SIGINT && stop_signal == SIGINT) return true;
  if ((signal != SIGINT && signal != SIGTERM) || (signal == SIGTERM && two_terms)) return false;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec - asked_at.tv_sec > (now.tv_nsec < asked_at.tv_nsec ? 1 : 0);
}

void on_stop(int signal) {
  if (is_hurry(signal)) {
    static constexpr char message[] = "\npenstock: asked to stop once more: leaving at once, nothing saved\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, message, sizeof message - 1);
    _exit(static_cast<int>(signal == SIGINT ? ExitCode::interrupted : ExitCode::terminated));
  }
  const int saved_errno = errno;
  if (stop_signal == 0) {
    clock_gettime(CLOCK_MONOTONIC, &asked_at);
    first_notice.print();
    if (signal == SIGTERM || signal == SIGINT) impatience_notice.print();
  }
  errno = saved_errno;
  stop_signal = signal;
}

void on_save(int /*signal*/) {
  save_signal = 1;
}

// Whom other threads ask.
std::mutex current_mutex;
const StopSwitch* current = nullptr;

const std::time_t program_start = std::time(nullptr);

bool older_than_program(const std::filesystem::path& file) {
  struct stat about {};
  return ::stat(file.c_str(), &about) == 0 && about.st_mtime < program_start - 1;  // clocks of hosts differ
}

struct Handled {
  int signal;
  void (*handler)(int);
};

void install(const Handled& handled) {
  struct sigaction action {};
  action.sa_handler = handled.handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  if (sigaction(handled.signal, &action, nullptr) != 0) {
    throw std::system_error(errno, std::generic_category(),
                            fmt::format("installing the handler of SIG{}", sigabbrev_np(handled.signal)));
  }
}

std::array<Handled, 7> handlers() {
  return {{{SIGUSR1, on_stop},
           {SIGTERM, on_stop},
           {SIGINT, on_stop},
           {SIGHUP, isatty(STDIN_FILENO) != 0 ? SIG_DFL : on_stop},
           {SIGUSR2, on_save},
           {SIGPIPE, SIG_IGN},
           {SIGXFSZ, SIG_IGN}}};
}

}  // namespace

StopSwitch::StopSwitch(std::filesystem::path control, std::optional<std::chrono::seconds> max_wall_time,
                       const StopNotice& notice)
    : control_(std::move(control)), max_wall_time_(max_wall_time), start_(std::chrono::steady_clock::now()) {
  stop_signal = 0;
  save_signal = 0;
  first_notice.set(notice.first);
  impatience_notice.set(notice.impatience);
  two_terms = notice.two_terms;
  for (const Handled& handled : handlers()) install(handled);
  const std::lock_guard lock(current_mutex);
  current = this;
}

StopSwitch::~StopSwitch() {
  {
    const std::lock_guard lock(current_mutex);
    if (current == this) current = nullptr;
  }
  // Once training is over an interrupt should end the program as usual; broken pipes stay ignored.
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT, SIGHUP, SIGUSR2}) ::signal(signal, SIG_DFL);
}

bool StopSwitch::signalled() {
  if (stop_signal != 0) return true;
  const std::lock_guard lock(current_mutex);
  return current != nullptr && current->asked();
}

bool StopSwitch::asked() const {
  if (max_wall_time_ && std::chrono::steady_clock::now() - start_ >= *max_wall_time_) return true;
  std::error_code ignored;
  return !control_.empty() && std::filesystem::exists(control_ / "stop", ignored) &&
         !older_than_program(control_ / "stop");
}

std::vector<std::string> StopSwitch::discard_old() {
  std::vector<std::string> lines;
  for (const char* name : {"stop", "save", "eval", "act"}) {
    if (control_.empty() || !older_than_program(control_ / name) || !take_file(name)) continue;
    lines.push_back(fmt::format(
        "control/{} is older than this start and is removed; ask again if this run is meant", name));
  }
  return lines;
}

bool StopSwitch::take_file(const char* name) {
  std::error_code ignored;  // a control folder that vanished asks for nothing
  return !control_.empty() && std::filesystem::remove(control_ / name, ignored);
}

std::string StopSwitch::take_text(const char* name) {
  if (control_.empty()) return {};
  std::error_code ignored;
  // Opening a pipe would wait for whoever writes it.
  if (!std::filesystem::is_regular_file(control_ / name, ignored)) return {};
  constexpr size_t longest = 1024;
  std::string text(longest + 1, '\0');
  std::ifstream file(control_ / name, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  file.close();
  const size_t end = text.find('\n');
  if (end != std::string::npos) {
    text.resize(end);
  } else if (text.size() > longest) {
    // No request is so long: what is left of it is refused, in few words.
    text.resize(60);
    text += "...";
  } else {
    return {};  // whoever writes it may not be done: a line is there with its end
  }
  // It is said again, on terminals too.
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return take_file(name) ? text : std::string();
}

Request StopSwitch::poll(std::chrono::duration<double> margin) {
  Request request;
  request.act = take_text("act");
  if (take_file("eval")) {
    request.evaluate = true;
    request.reason = "control/eval";
  }
  if (save_signal != 0 || take_file("save")) {
    request.reason = save_signal != 0 ? "signal USR2" : "control/save";
    save_signal = 0;
    request.save = true;
  }
  if (max_wall_time_) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
    if (elapsed + margin >= *max_wall_time_) {
      request.stop = true;
      request.reason =
          fmt::format("run.max_wall_time of {} s ({:.0f} s used, a step and a save need {:.0f} s)",
                      max_wall_time_->count(), elapsed.count(), margin.count());
    }
  }
  if (take_file("stop")) {
    request.stop = true;
    request.reason = "control/stop";
  }
  if (stop_signal != 0) {
    request.stop = true;
    request.reason = fmt::format("signal {}", sigabbrev_np(stop_signal));
  }
  return request;
}

}  // namespace penstock
