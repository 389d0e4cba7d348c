#include "trainer/commands/report.h"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "data/file_writer.h"
#include "trainer/commands/run_command.h"
#include "trainer/job/exit_code.h"
#include "trainer/run_folder.h"
#include "trainer/run_report/page.h"
#include "trainer/run_report/report_data.h"

namespace penstock::commands {
namespace {

struct Arguments {
  std::vector<std::string> runs;
  std::string output;
  bool json = false;
};

int write(const Arguments& arguments) {
  const std::vector<std::filesystem::path> runs(arguments.runs.begin(), arguments.runs.end());
  const nlohmann::ordered_json data = run_report::report_data(runs, run_view::Surroundings::here());
  const std::string text = arguments.json
                               ? data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
                               : run_report::page(data);
  if (arguments.output == "-") {
    fmt::print("{}", text);
    return static_cast<int>(ExitCode::finished);
  }
  const std::string file = arguments.output.empty()
                               ? (runs.front() / (arguments.json ? "report.json" : "report.html")).string()
                               : arguments.output;
  data::write_file(file, text);
  fmt::print("{}: {:.1f} kB{}\n", file, static_cast<double>(text.size()) / 1e3,
             arguments.json ? "" : "; open it in a browser, it loads nothing");
  return static_cast<int>(ExitCode::finished);
}

}  // namespace

CLI::App* add_report(CLI::App& parent, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      parent.add_subcommand("report", "A run, or two side by side, as one HTML page that needs no network");
  command->add_option("run", arguments->runs, "the run's folder; a second one is compared with it")
      ->required()
      ->expected(1, 2)
      ->type_name("RUN [RUN2]");
  command
      ->add_option("-o,--output", arguments->output,
                   "the page; - is standard output; default RUN/report.html")
      ->type_name("FILE");
  command->add_flag("--json", arguments->json, "only the page's data, as JSON");
  command->footer(
      "Time lines are of the steps in the run's trace/ folder (job key trace.steps).\n"
      "Examples:\n"
      "  penstock report runs/quickstart\n"
      "  penstock report runs/before runs/after -o comparison.html");
  command->callback([arguments, &exit_code] { exit_code = run_command([&] { return write(*arguments); }); });
  return command;
}

}  // namespace penstock::commands
