#include "trainer/alarm_command.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX wants it declared here

namespace penstock {

namespace {

using Clock = std::chrono::steady_clock;

// posix_spawn's objects with an end.
struct SpawnOptions {
  SpawnOptions() {
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_init(&files);
  }
  ~SpawnOptions() {
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
  }
  SpawnOptions(const SpawnOptions&) = delete;
  SpawnOptions& operator=(const SpawnOptions&) = delete;

  posix_spawnattr_t attributes{};
  posix_spawn_file_actions_t files{};
};

// The error's number; 0: `process` runs.
int start(const std::string& command, const std::vector<std::string>& variables, pid_t& process) {
  SpawnOptions options;
  sigset_t every;
  sigfillset(&every);
  sigset_t none;
  sigemptyset(&none);
  for (const int error :
       {posix_spawnattr_setflags(&options.attributes,
                                 POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK),
        posix_spawnattr_setsigdefault(&options.attributes, &every),
        posix_spawnattr_setsigmask(&options.attributes, &none),
        posix_spawn_file_actions_addopen(&options.files, STDIN_FILENO, "/dev/null", O_RDONLY, 0)}) {
    if (error != 0) return error;
  }
  std::vector<char*> environment;
  environment.reserve(variables.size() + 1);
  for (const std::string& variable : variables) environment.push_back(const_cast<char*>(variable.c_str()));
  environment.push_back(nullptr);
  std::string shell = "sh";
  std::string flag = "-c";
  std::string text = command;
  char* const arguments[] = {shell.data(), flag.data(), text.data(), nullptr};
  return posix_spawn(&process, "/bin/sh", &options.files, &options.attributes, arguments, environment.data());
}

}  // namespace

AlarmCommand::AlarmCommand(std::string command, std::chrono::milliseconds limit, Sink sink)
    : command_(std::move(command)), limit_(limit), sink_(std::move(sink)), last_(Clock::time_point::max()) {}

AlarmCommand::~AlarmCommand() {
  {
    const std::lock_guard lock(mutex_);
    last_ = Clock::now() + grace;
  }
  for (std::thread& watcher : watchers_) watcher.join();
}

void AlarmCommand::run(const Environment& environment) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
  for (const auto& [name, value] : environment) variables.push_back(fmt::format("{}={}", name, value));
  pid_t process = -1;
  const int error = start(command_, variables, process);
  if (error != 0) {
    sink_(fmt::format("bubble_budget.on_alarm = \"{}\" could not be started: {}", command_,
                      std::generic_category().message(error)));
    return;
  }
  watchers_.emplace_back([this, process, deadline = Clock::now() + limit_] { watch(process, deadline); });
}

void AlarmCommand::watch(int process, Clock::time_point deadline) {
  constexpr auto period = std::chrono::milliseconds(20);
  int status = 0;
  bool killed = false;
  while (true) {
    const pid_t ended = waitpid(process, &status, killed ? 0 : WNOHANG);
    if (ended == process) break;
    if (ended < 0 && errno != EINTR) {
      sink_(fmt::format("bubble_budget.on_alarm: waiting for process {}: {}", process,
                        std::generic_category().message(errno)));
      return;
    }
    Clock::time_point last;
    {
      const std::lock_guard lock(mutex_);
      last = std::min(deadline, last_);
    }
    if (Clock::now() >= last) {
      killed = true;
      kill(-process, SIGKILL);  // it leads a group of its own
      continue;
    }
    std::this_thread::sleep_for(period);
  }
  if (killed) {
    sink_(fmt::format("bubble_budget.on_alarm = \"{}\" was killed: it ran for longer than {} s", command_,
                      std::chrono::duration<double>(limit_).count()));
  } else if (WIFSIGNALED(status)) {
    sink_(fmt::format("bubble_budget.on_alarm = \"{}\" ended by signal {}", command_, WTERMSIG(status)));
  } else if (WEXITSTATUS(status) != 0) {
    sink_(fmt::format("bubble_budget.on_alarm = \"{}\" failed with exit status {}", command_,
                      WEXITSTATUS(status)));
  }
}

}  // namespace penstock
