#include "trainer/commands/watch.h"

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "trainer/commands/number_check.h"
#include "trainer/commands/run_command.h"
#include "trainer/job/budget_file.h"
#include "trainer/run_view/run_advice.h"
#include "trainer/watch/terminal_session.h"
#include "trainer/watch/watch.h"

namespace penstock::commands {
namespace {

struct Arguments {
  std::string run;
  std::string budget;
  bool once = false;
  bool plain = false;
  double every = 0;
  int columns = 0;
  int rows = 0;
};

int show(const Arguments& arguments) {
  watch::WatchOptions options;
  options.folder = arguments.run;
  options.once = arguments.once;
  options.plain = arguments.plain;
  const double every = arguments.every > 0 ? arguments.every : watch::can_redraw(arguments.plain) ? 1 : 60;
  options.every = std::chrono::milliseconds(static_cast<int64_t>(1e3 * every));
  options.columns = arguments.columns;
  options.rows = arguments.rows;
  if (!arguments.budget.empty()) options.budget = read_budget(arguments.budget);
  options.advice = [](const std::filesystem::path& folder) { return text_of(run_view::advise_run(folder)); };
  return watch::watch(options);
}

}  // namespace

CLI::App* add_watch(CLI::App& parent, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      parent.add_subcommand("watch", "Show a run while it goes on: where its time goes, and why");
  command->add_option("run", arguments->run, "the run's folder; it may not have begun yet")
      ->required()
      ->type_name("RUN");
  command->add_flag("--once", arguments->once, "one frame, then leave");
  command->add_flag("--plain", arguments->plain, "neither colours nor redrawing: frame after frame");
  command
      ->add_option("--every", arguments->every,
                   "seconds between two frames; by default 1, where nothing is redrawn 60")
      ->type_name("SECONDS")
      ->check(real_number(0.1, 86400));
  command->add_option("--columns", arguments->columns, "width; by default the terminal's, or 100")
      ->type_name("N")
      ->check(whole_number(20, 1000));
  command->add_option("--rows", arguments->rows, "height; by default the terminal's, or what the run needs")
      ->type_name("N")
      ->check(whole_number(2, 1000));
  command
      ->add_option("--budget", arguments->budget,
                   "a file with a section [bubble_budget]; without it: the run's own job.toml")
      ->type_name("FILE");
  command->footer(
      "q or Ctrl-C leaves; the run does not notice. Colours and lines depend on the terminal (TERM, "
      "NO_COLOR) and "
      "the locale.\n"
      "Examples:\n"
      "  penstock watch runs/quickstart\n"
      "  ssh -t cluster penstock watch runs/gpt2-124m\n"
      "  penstock watch runs/nightly --once --columns 120 >panel.txt");
  command->callback([arguments, &exit_code] { exit_code = run_command([&] { return show(*arguments); }); });
  return command;
}

}  // namespace penstock::commands
