#include "trainer/commands/manual.h"

#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trainer/commands/run_command.h"
#include "trainer/job/exit_code.h"
#include "trainer/version/version.h"

namespace penstock::commands {
namespace {

struct Status {
  ExitCode code;
  const char* meaning;
};

constexpr Status statuses[] = {
    {ExitCode::finished, "done, or already complete"},
    {ExitCode::internal_error, "a bug of the program; of checkpoint diff: they differ"},
    {ExitCode::usage, "wrong arguments, or a wrong job, cluster, profile or schedule file"},
    {ExitCode::data, "token files, tokenizer, text or a run's records are missing or damaged"},
    {ExitCode::no_checkpoint, "no usable checkpoint where one is needed"},
    {ExitCode::numerics, "NaN, Inf or a spike of the loss, and the job says stop"},
    {ExitCode::storage, "a file cannot be written: no space, no such folder, no right to"},
    {ExitCode::over_budget, "gate: the run breaks its bubble budget"},
    {ExitCode::watchdog, "no progress within the configured time, or a rank that was lost"},
    {ExitCode::stopped, "stopped early on request, checkpoint saved: the same command goes on"},
    {ExitCode::interrupted, "a second INT: left at once"},
    {ExitCode::terminated, "a second TERM: left at once"},
};

// A line of text: a dash is a dash, a backslash itself, and no line is taken for a request.
std::string roff(const std::string& text) {
  std::string made;
  for (const char c : text) {
    if (c == '-')
      made += "\\-";
    else if (c == '\\')
      made += "\\e";
    else
      made += c;
  }
  if (!made.empty() && (made.front() == '.' || made.front() == '\'')) made.insert(0, "\\&");
  return made;
}

std::string tagged(const OptionEntry& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.names) names.push_back("\\fB" + roff(name) + "\\fR");
  std::string text = fmt::format(".TP\n{}", fmt::join(names, ", "));
  if (!option.value.empty() && option.names.front().front() == '-')
    text += " \\fI" + roff(option.value) + "\\fR";
  return text + "\n" + roff(option.help) + "\n";
}

// Lines that begin with two spaces are what somebody types.
std::string examples(const std::string& footer) {
  std::istringstream lines(footer);
  std::string line;
  std::string text = ".nf\n";
  bool any = false;
  while (std::getline(lines, line)) {
    if (line.rfind("  ", 0) != 0) continue;
    text += roff(line) + "\n";
    any = true;
  }
  return any ? ".P\n" + text + ".fi\n" : "";
}

std::string section(const CommandEntry& command) {
  std::string synopsis = roff(command.path);
  for (const OptionEntry& each : command.positionals) synopsis += " " + roff(each.value);
  std::string text = fmt::format(".SS {}\n{}.\n", synopsis, roff(command.help));
  for (const OptionEntry& each : command.positionals) text += tagged(each);
  for (const OptionEntry& each : command.options) text += tagged(each);
  return text + examples(command.footer);
}

}  // namespace

std::string manual_page(const std::vector<CommandEntry>& tree, const std::string& version) {
  const CommandEntry& program = tree.front();
  std::string page = fmt::format(".TH PENSTOCK 1 \"\" \"penstock {}\" \"User Commands\"\n", roff(version));
  page += ".SH NAME\npenstock \\- pre\\-trains transformers with pipeline parallelism and a bubble budget\n";
  page +=
      ".SH SYNOPSIS\n.B penstock\n.I command\n[\\fIoptions\\fR]\n.br\n.B mpirun \\-n\n.I ranks\n"
      ".B penstock train\n.I job.toml\n";
  page +=
      ".SH DESCRIPTION\n" + roff(program.help) +
      "\nA run is described by a job file in TOML; every key stands in job\\-file.md of the documentation "
      "and is checked before anything starts. Ranks are threads of one process, or processes started by "
      "\\fBmpirun\\fR or \\fBsrun\\fR. A run that is stopped goes on with the same command.\n";
  page += ".SH COMMANDS\n";
  for (size_t i = 1; i < tree.size(); ++i) {
    if (tree[i].commands.empty()) page += section(tree[i]);
  }
  page += ".SH EXIT STATUS\n";
  for (const Status& each : statuses)
    page += fmt::format(".TP\n.B {}\n{}\n", static_cast<int>(each.code), roff(each.meaning));
  page += ".SH EXAMPLES\n" + examples(program.footer);
  page += ".SH SEE ALSO\n\\fBmpirun\\fR(1), \\fBsrun\\fR(1)\n";
  return page;
}

CLI::App* add_man(CLI::App& parent, int& exit_code) {
  CLI::App* command = parent.add_subcommand("man", "Print the manual page");
  command->footer("Examples:\n  penstock man | man -l -");
  command->callback([&parent, &exit_code] {
    exit_code = run_command([&] {
      const std::string text = version_text();  // "penstock 0.1.0 (…)"
      const std::string version = text.substr(0, text.find('\n'));
      fmt::print("{}", manual_page(command_tree(parent), version.substr(version.find(' ') + 1)));
      return 0;
    });
  });
  return command;
}

}  // namespace penstock::commands
