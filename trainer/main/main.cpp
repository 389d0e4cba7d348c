#include <exception>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "trainer/commands/checkpoint_diff.h"
#include "trainer/commands/checkpoint_list.h"
#include "trainer/commands/checkpoint_prune.h"
#include "trainer/commands/checkpoint_verify.h"
#include "trainer/commands/completion.h"
#include "trainer/commands/data_inspect.h"
#include "trainer/commands/data_prepare.h"
#include "trainer/commands/eval.h"
#include "trainer/commands/export.h"
#include "trainer/commands/gate.h"
#include "trainer/commands/generate.h"
#include "trainer/commands/import.h"
#include "trainer/commands/job.h"
#include "trainer/commands/manual.h"
#include "trainer/commands/plan.h"
#include "trainer/commands/profile.h"
#include "trainer/commands/replay.h"
#include "trainer/commands/report.h"
#include "trainer/commands/run_command.h"
#include "trainer/commands/status.h"
#include "trainer/commands/tokenizer_convert.h"
#include "trainer/commands/tokenizer_train.h"
#include "trainer/commands/train.h"
#include "trainer/commands/usage_error.h"
#include "trainer/commands/watch.h"
#include "trainer/version/version.h"

int main(int argc, char** argv) {
  using namespace penstock::commands;
  int exit_code = 0;
  CLI::App app("Pre-trains transformers with pipeline parallelism and a bubble budget.", "penstock");
  app.require_subcommand(1);
  app.set_version_flag("--version", [] { return penstock::version_text(); });
  app.footer(
      "Examples:\n"
      "  penstock train configs/quickstart.toml\n"
      "  penstock generate configs/quickstart.toml --prompt \"In the beginning\"\n"
      "  penstock plan --schedule 1f1b --pipeline 4 --micro-batches 8\n"
      "  penstock checkpoint diff runs/one runs/pipeline\n"
      "`penstock COMMAND --help` tells more.");
  add_train(app, exit_code, std::vector<std::string>(argv, argv + argc));
  add_eval(app, exit_code);
  add_generate(app, exit_code);
  add_plan(app, exit_code);
  add_profile(app, exit_code);
  add_replay(app, exit_code);
  add_gate(app, exit_code);
  add_watch(app, exit_code);
  add_status(app, exit_code);
  add_report(app, exit_code);
  CLI::App* data = app.add_subcommand("data", "Prepare and inspect token files");
  data->require_subcommand(1);
  data->footer("`penstock data COMMAND --help` tells more.");
  add_data_prepare(*data, exit_code);
  add_data_inspect(*data, exit_code);
  CLI::App* tokenizer = app.add_subcommand("tokenizer", "Train a tokenizer");
  tokenizer->require_subcommand(1);
  tokenizer->footer("`penstock tokenizer COMMAND --help` tells more.");
  add_tokenizer_train(*tokenizer, exit_code);
  add_tokenizer_convert(*tokenizer, exit_code);
  CLI::App* checkpoint = app.add_subcommand("checkpoint", "List, verify and compare checkpoints");
  checkpoint->require_subcommand(1);
  checkpoint->footer("`penstock checkpoint COMMAND --help` tells more.");
  add_checkpoint_list(*checkpoint, exit_code);
  add_checkpoint_verify(*checkpoint, exit_code);
  add_checkpoint_prune(*checkpoint, exit_code);
  add_checkpoint_diff(*checkpoint, exit_code);
  add_export(app, exit_code);
  add_import(app, exit_code);
  add_job(app, exit_code);
  add_completion(app, exit_code);
  add_man(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return checked_output(report_usage_error(app, error));
  }
  // What `train` makes lies in its run folder; a lost console is no reason to call the run failed.
  return app.got_subcommand("train") ? exit_code : checked_output(exit_code);
}
