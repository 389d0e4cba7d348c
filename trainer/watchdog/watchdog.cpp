#include "trainer/watchdog/watchdog.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "kernels/device/clock.h"
#include "trainer/job/exit_code.h"
#include "trainer/watchdog/last_words.h"
#include "trainer/watchdog/thread_stacks.h"

namespace penstock::watchdog {
namespace {

constexpr double period = 1;        // seconds between heartbeats
constexpr double late = 3;          // woken so much too late, the process did not run
constexpr double gathering = 1.5;   // for what the others have to say when a limit is over
constexpr double losing = 0.3;      // for further ranks that are lost with the first
constexpr double own_patience = 4;  // for rank 0's verdict; then one's own
constexpr double failure_patience = 5;
constexpr double stop_patience = 3;  // for the start to hear that it is to stop

volatile sig_atomic_t quit_signals = 0;
void on_quit(int /*signal*/) {
  quit_signals = quit_signals + 1;
}

// Ranks of one process leave together, once all of them have said where they are.
std::atomic<int> in_this_process{0};

volatile sig_atomic_t last_code = 0;
void on_alarm(int /*signal*/) {
  _exit(last_code);
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  if (sigaction(signal, &action, nullptr) != 0) {
    throw std::system_error(errno, std::generic_category(),
                            fmt::format("installing the handler of SIG{}", sigabbrev_np(signal)));
  }
}

double seconds(Progress::Clock::time_point at) {
  return std::chrono::duration<double>(at.time_since_epoch()).count();
}

double seconds_now() {
  return seconds(Progress::Clock::now());
}

void say(const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = ::write(STDERR_FILENO, text.data() + done, text.size() - done);
    if (wrote <= 0 && errno != EINTR) return;
    if (wrote > 0) done += static_cast<size_t>(wrote);
  }
}

}  // namespace

Watchdog::Watchdog(const Progress& progress, transport::World& world, Setting setting)
    : progress_(progress), rank_(world.rank()), setting_(std::move(setting)), calls_(world.size()) {
  prepare_thread_stacks();
  handle(SIGQUIT, on_quit);
  quits_ = quit_signals;
  alarm_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (alarm_ < 0) throw std::system_error(errno, std::generic_category(), "making the watchdog's eventfd");
  if (world.size() > 1) {
    Channel channel = meet(world.hosts(), setting_.address);
    links_ = std::move(channel.links);
    channel_failure_ = std::move(channel.failure);
    for (int rank = 0; rank < world.size(); ++rank)
      calls_.introduce(rank, channel.places[static_cast<size_t>(rank)], seconds_now());
  }
  ++in_this_process;
  thread_ = std::thread([this] { run(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  eventfd_write(alarm_, 1);
  thread_.join();
  if (--in_this_process == 0) ::signal(SIGQUIT, SIG_DFL);
  close(alarm_);
}

void Watchdog::failed(int code, const std::string& reason, bool echo) {
  if (alone()) return;
  std::unique_lock lock(mutex_);
  if (echo) changed_.wait_for(lock, std::chrono::milliseconds(1500), [this] { return foreign_failure_; });
  Message message;
  message.kind = Message::Kind::failed;
  message.rank = rank_;
  message.code = code;
  message.text = reason;
  own_failure_ = message;
  eventfd_write(alarm_, 1);
  changed_.wait_for(lock, std::chrono::seconds(1), [this] { return !own_failure_.has_value(); });
}

bool Watchdog::alone() const {
  return std::none_of(links_.begin(), links_.end(),
                      [](const LineLink& link) { return static_cast<bool>(link); });
}

void Watchdog::send_all(const Message& message, int but) {
  const std::string line = line_of(message);
  for (size_t rank = 0; rank < links_.size(); ++rank) {
    if (static_cast<int>(rank) != but) links_[rank].send(line);
  }
}

void Watchdog::run() {
  woken_ = next_beat_ = seconds_now();
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (ends_ && !own_failure_) break;
    }
    double until = next_beat_;
    if (verdict_) until = std::min(until, verdict_->due);
    std::vector<pollfd> what{{alarm_, POLLIN, 0}};
    for (const LineLink& link : links_) {
      if (link)
        what.push_back(
            {link.descriptor(), static_cast<short>(link.wants_to_write() ? POLLIN | POLLOUT : POLLIN), 0});
    }
    const double wait = std::clamp(until - seconds_now(), 0.0, period);
    ::poll(what.data(), what.size(), static_cast<int>(wait * 1000) + 1);
    eventfd_t ignored = 0;
    eventfd_read(alarm_, &ignored);
    const double now = seconds_now();
    if (const double gap = now - woken_; gap > period + late) {
      calls_.stood_still(gap);
      excused_ += gap;
      if (verdict_) verdict_->due += gap;
    }
    woken_ = now;
    pass_on_own_failure();
    receive(now);
    check_limit(now);
    check_stop(now);
    if (now >= next_beat_) beat(now);
    check_verdict(now);
    check_quit();
  }
  Message bye;
  bye.kind = Message::Kind::bye;
  bye.rank = rank_;
  send_all(bye);
}

Heartbeat Watchdog::own(double now) const {
  const Progress::View view = progress_.view();
  const Progress::Engine engine = progress_.engine();
  Heartbeat beat;
  beat.rank = rank_;
  beat.phase = view.phase;
  beat.part = view.part;
  beat.step = view.step;
  beat.seconds = std::max(0.0, now - seconds(view.since));
  beat.stage = engine.stage;
  if (engine.flights)
    beat.activity = activity_of(engine.flights->now(), engine.pipeline, make_real_clock()->now());
  return beat;
}

void Watchdog::pass_on_own_failure() {
  const std::lock_guard lock(mutex_);
  if (!own_failure_) return;
  send_all(*own_failure_);
  own_failure_.reset();
  changed_.notify_all();
}

void Watchdog::beat(double now) {
  next_beat_ = now + period;
  Message message;
  message.beat = own(now);
  calls_.heard(message.beat, now);
  send_all(message);
  if (!hub()) return;
  // Everybody hears of the rank that it waits for.
  for (size_t rank = 1; rank < links_.size(); ++rank) {
    const auto& last = calls_.last(static_cast<int>(rank));
    if (!links_[rank] || !last) continue;
    const int peer = last->activity.peer;
    if (peer <= 0 || peer >= calls_.ranks() || !calls_.last(peer)) continue;
    message.beat = *calls_.last(peer);
    message.heard = calls_.silence(peer, now).value_or(0);
    links_[rank].send(line_of(message));
  }
}

void Watchdog::receive(double now) {
  for (size_t rank = 0; rank < links_.size(); ++rank) {
    LineLink& link = links_[rank];
    if (!link) continue;
    link.flush();
    for (const std::string& line : link.receive()) {
      Message message;
      if (read_message(line, message)) take(static_cast<int>(rank), message, now);
    }
    if (!link) lose(static_cast<int>(rank), now);
  }
}

void Watchdog::take(int from, const Message& message, double now) {
  switch (message.kind) {
    case Message::Kind::hello:
      return;
    case Message::Kind::beat:
      calls_.heard(message.beat, now, message.heard);
      return;
    case Message::Kind::expired:
      decide(now + gathering, static_cast<int>(ExitCode::watchdog), message.text);
      return;
    case Message::Kind::leave:
      decide(now, static_cast<int>(ExitCode::stopped), message.text);
      return;
    case Message::Kind::failed:
      calls_.left(message.rank);
      if (hub()) send_all(message, from);
      decide(now + failure_patience, message.code,
             fmt::format("{} left with an error (code {}: {}), and this one hangs", calls_.name(message.rank),
                         message.code, message.text));
      {
        const std::lock_guard lock(mutex_);
        foreign_failure_ = true;
      }
      changed_.notify_all();
      return;
    case Message::Kind::verdict:
      verdict_.reset();
      leave(message.code, message.text);
    case Message::Kind::bye:
      calls_.left(from);
      links_[static_cast<size_t>(from)].close();
      return;
  }
}

void Watchdog::lose(int from, double now) {
  if (calls_.has_left(from)) return;
  calls_.gone(from);
  decide(now + (hub() ? losing : 0), static_cast<int>(ExitCode::watchdog), "a rank is lost");
}

// The first one counts, but for an error, whose rank leaves the others time to end by themselves.
void Watchdog::decide(double due, int code, const std::string& why) {
  if (!verdict_ || due < verdict_->due) verdict_ = Verdict{due, code, why};
}

void Watchdog::check_limit(double now) {
  const Progress::View view = progress_.view();
  if (view.since != phase_since_) {
    phase_since_ = view.since;
    excused_ = 0;
    expired_ = false;
  }
  const double limit = limit_of(view.phase, view.first, view.median_step, setting_.limits);
  if (expired_ || now - seconds(view.since) - excused_ <= limit) return;
  expired_ = true;
  Message message;
  message.kind = Message::Kind::expired;
  message.rank = rank_;
  message.text = fmt::format(
      "no progress: {}{} of rank {} has taken more than {} ({}; raise it where so long is usual)",
      name_of(view.phase),
      view.phase == Phase::start_up ? fmt::format(" ({})", view.part)
                                    : (view.step > 0 ? fmt::format(" (step {})", view.step) : ""),
      rank_, seconds_text(limit), key_of(view.phase, view.first, view.median_step, setting_.limits));
  if (!hub() && !alone()) links_[0].send(line_of(message));
  decide(now + (alone() ? 0 : (hub() ? gathering : own_patience)), static_cast<int>(ExitCode::watchdog),
         message.text);
}

// In the start nothing can be lost: who is asked to stop there, and is in something long, leaves.
void Watchdog::check_stop(double now) {
  const Progress::View view = progress_.view();
  const bool starting = view.phase == Phase::start_up || (view.phase == Phase::load && view.step == 0);
  if (!starting || !setting_.stop_asked || !setting_.stop_asked()) {
    stop_since_.reset();
    return;
  }
  if (!stop_since_) stop_since_ = now;
  if (now - *stop_since_ < stop_patience) return;
  stop_since_ = now + 1e9;
  Message message;
  message.kind = Message::Kind::leave;
  message.rank = rank_;
  message.text =
      fmt::format("asked to stop in the start-up ({}): nothing is lost, the same command begins anew",
                  progress_.view().part);
  if (!hub() && !alone()) links_[0].send(line_of(message));
  decide(now + (hub() || alone() ? 0 : own_patience), static_cast<int>(ExitCode::stopped), message.text);
}

void Watchdog::check_verdict(double now) {
  if (!verdict_ || now < verdict_->due) return;
  calls_.heard(own(now), now);
  std::string text = verdict_->why;
  if (verdict_->code == static_cast<int>(ExitCode::watchdog)) {
    const std::string culprit = calls_.culprit(now);
    if (!culprit.empty()) text += (text.empty() ? "" : "; ") + culprit;
  }
  if (hub()) {
    Message message;
    message.kind = Message::Kind::verdict;
    message.rank = rank_;
    message.code = verdict_->code;
    message.text = text;
    send_all(message);
  }
  leave(verdict_->code, text);
}

void Watchdog::check_quit() {
  const int quits = quit_signals;
  if (quits == quits_) return;
  quits_ = quits;
  const double now = seconds_now();
  const std::string where = calls_.where(own(now), now);
  const LastWords words{setting_.run, progress_.view().attempt, rank_, where};
  const std::string file = write_flight_file(words, progress_);
  say(fmt::format("penstock: {}{}\n", where,
                  file.empty() ? "" : fmt::format("; calls and last actions are in {}", file)));
}

void Watchdog::leave(int code, const std::string& text) {
  last_code = code;
  const bool stopped = code == static_cast<int>(ExitCode::stopped);
  const double now = seconds_now();
  const Progress::View view = progress_.view();
  const std::string where = calls_.where(own(now), now);
  const bool first = alone() || calls_.lowest_living(now) == rank_;
  const bool speaks = first || verdict_.has_value();  // it came to it by itself
  LastWords words{setting_.run, view.attempt, rank_, text + "\n" + where};
  std::string shown = speaks ? fmt::format("\npenstock: {}{}\n", stopped ? "" : "watchdog: ", text) : "";
  if (!stopped) shown += fmt::format("penstock: {}\n", where);
  say(shown);
  // A disk that hangs must not hold up the end.
  handle(SIGALRM, on_alarm);
  alarm(5);
  write_log(words);
  if (first) {
    std::vector<std::string> ranks;
    for (int rank = 0; rank < calls_.ranks(); ++rank) {
      const auto& last = calls_.last(rank);
      if (last) ranks.push_back(calls_.where(*last, now));
    }
    write_outcome(words, view.step, {stopped ? "end" : "watchdog", code, text, std::move(ranks)});
  }
  if (!stopped) {
    const std::string file = write_flight_file(words, progress_);
    if (!file.empty() && speaks) say(fmt::format("penstock: calls and last actions: {}\n", file));
  }
  --in_this_process;
  const double latest = seconds_now() + 2;
  while (in_this_process > 0 && seconds_now() < latest)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  // Launchers report the code of the first that leaves, and end the others: rank 0 goes last, and one that
  // follows a rank 0 that is gone gives the launcher time to see that one first.
  if (!alone() && (hub() || speaks)) std::this_thread::sleep_for(std::chrono::milliseconds(700));
  _exit(code);
}

}  // namespace penstock::watchdog
