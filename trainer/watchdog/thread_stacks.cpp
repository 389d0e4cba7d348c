#include "trainer/watchdog/thread_stacks.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include <execinfo.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "trainer/watchdog/symbols.h"

namespace penstock::watchdog {
namespace {

constexpr int most_calls = 64;

// What the thread that is asked writes, and the one that asks reads once it is done. One thread at a time.
std::array<void*, most_calls> calls;
std::atomic<int> count{0};
std::atomic<pid_t> asked{0};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<pid_t>::is_always_lock_free);

int stack_signal() {
  return SIGRTMIN + 5;
}

void answer(int /*signal*/) {
  const int saved = errno;
  const auto self = static_cast<pid_t>(syscall(SYS_gettid));
  // A thread that answers late must not write over the next one's.
  pid_t expected = self;
  if (asked.compare_exchange_strong(expected, -self)) {
    count.store(backtrace(calls.data(), most_calls));
    asked.store(0);
  }
  errno = saved;
}

std::string name_of(pid_t thread) {
  std::string name;
  std::getline(std::ifstream(fmt::format("/proc/self/task/{}/comm", thread)), name);
  return name;
}

bool ask(pid_t thread) {
  count.store(0);
  asked.store(thread);
  if (syscall(SYS_tgkill, getpid(), thread, stack_signal()) != 0) {
    asked.store(0);
    return false;
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  while (asked.load() != 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  pid_t unanswered = thread;
  if (asked.compare_exchange_strong(unanswered, 0)) return false;
  while (asked.load() != 0) std::this_thread::sleep_for(std::chrono::microseconds(100));  // in its handler
  return count.load() > 0;
}

}  // namespace

void prepare_thread_stacks() {
  // The first call loads a library, which no handler may.
  std::array<void*, 1> one{};
  backtrace(one.data(), 1);
  struct sigaction action {};
  action.sa_handler = answer;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  if (sigaction(stack_signal(), &action, nullptr) != 0)
    throw std::system_error(errno, std::generic_category(),
                            "installing the handler that shows threads' calls");
}

std::string thread_stacks() {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const Symbols symbols;
  const auto self = static_cast<pid_t>(syscall(SYS_gettid));
  std::vector<pid_t> threads;
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error))
    threads.push_back(static_cast<pid_t>(std::atol(task.path().filename().c_str())));
  std::sort(threads.begin(), threads.end());
  std::string text;
  for (const pid_t thread : threads) {
    if (thread == self) continue;
    text += fmt::format("thread {} \"{}\"{}\n", thread, name_of(thread), thread == getpid() ? " (main)" : "");
    if (!ask(thread)) {
      text += "  did not answer\n";
      continue;
    }
    // The first two are the handler and its return.
    for (int i = std::min(2, count.load() - 1); i < count.load(); ++i)
      text += "  " + symbols.name(calls[static_cast<size_t>(i)]) + "\n";
  }
  return text;
}

}  // namespace penstock::watchdog
