#include "trainer/watch/watch.h"

#include <cstdio>
#include <exception>
#include <future>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "trainer/run_view/run_state.h"
#include "trainer/watch/panel.h"
#include "trainer/watch/terminal_session.h"

namespace penstock::watch {
namespace {

using run_view::RunState;
using run_view::Surroundings;

constexpr int kPlainColumns = 100;
// What is advised changes with the run's mean, not with a step.
constexpr auto kAdvicePeriod = std::chrono::minutes(5);
constexpr int64_t kFirstAdviceSteps = 12;

/// Asks for advice in a thread of its own, so that the panel goes on.
class Advisor {
 public:
  explicit Advisor(const WatchOptions& options) : options_(options) {}

  const std::vector<std::string>& now(const RunState& run, bool wait) {
    if (!options_.advice) return lines_;
    const auto time = std::chrono::steady_clock::now();
    const bool due = !asked_ || time - *asked_ > kAdvicePeriod;
    if (!pending_.valid() && due && static_cast<int64_t>(run.past().size()) >= kFirstAdviceSteps) {
      asked_ = time;
      pending_ = std::async(std::launch::async, options_.advice, options_.folder);
    }
    if (pending_.valid() &&
        (wait || pending_.wait_for(std::chrono::seconds(0)) == std::future_status::ready)) {
      try {
        lines_ = pending_.get();
      } catch (const std::exception& error) {  // a file that cannot be read now
        lines_ = {std::string("no advice: ") + error.what()};
      }
    }
    return lines_;
  }

 private:
  const WatchOptions& options_;
  std::future<std::vector<std::string>> pending_;
  std::optional<std::chrono::steady_clock::time_point> asked_;
  std::vector<std::string> lines_;
};

std::vector<std::string> frame(const RunState& run, const View& view) {
  std::vector<std::string> rows;
  for (const Line& line : panel(run, view)) rows.push_back(line.text(view.abilities));
  return rows;
}

View plain_view(const WatchOptions& options, const Abilities& abilities) {
  View view;
  view.columns = options.columns > 0 ? options.columns : kPlainColumns;
  view.rows = options.rows;
  view.abilities = abilities;
  return view;
}

bool over(const RunState& run) {
  const run_view::Life life = run.liveness().life;
  return life == run_view::Life::ended || life == run_view::Life::killed;
}

int print_frames(const WatchOptions& options, RunState& run, const Abilities& abilities) {
  View view = plain_view(options, abilities);
  Advisor advisor(options);
  for (bool first = true;; first = false) {
    const Surroundings around = Surroundings::here();
    run.refresh(around);
    view.now = around.now;
    view.advice = advisor.now(run, true);
    if (!first) std::fputs("\n", stdout);
    for (const std::string& row : frame(run, view)) fmt::print("{}\n", row);
    if (std::fflush(stdout) != 0 || options.once || over(run)) return 0;
    std::this_thread::sleep_for(options.every);
  }
}

int redraw(const WatchOptions& options, RunState& run, const Abilities& abilities) {
  Advisor advisor(options);
  int signal = 0;
  {
    TerminalSession terminal;
    while (true) {
      const Surroundings around = Surroundings::here();
      run.refresh(around);
      View view;
      view.columns = options.columns > 0 ? options.columns : terminal.columns();
      view.rows = options.rows > 0 ? options.rows : terminal.rows();
      view.abilities = abilities;
      view.now = around.now;
      view.advice = advisor.now(run, false);
      view.hint = "q quits";
      if (!terminal.draw(frame(run, view))) return 0;
      if (terminal.wait(options.every) == TerminalSession::Wake::quit) break;
    }
    signal = terminal.signal();
  }
  return signal == 0 || signal == SIGINT ? 0 : 128 + signal;
}

}  // namespace

int watch(const WatchOptions& options) {
  RunState run(options.folder, options.budget);
  const Abilities abilities = abilities_of_output(options.plain);
  if (options.once || !can_redraw(options.plain)) return print_frames(options, run, abilities);
  return redraw(options, run, abilities);
}

}  // namespace penstock::watch
