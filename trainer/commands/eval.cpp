#include "trainer/commands/eval.h"

#include <cmath>
#include <limits>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "trainer/commands/given_command.h"
#include "trainer/commands/job_arguments.h"
#include "trainer/commands/leave_on_signal.h"
#include "trainer/commands/number_check.h"
#include "trainer/commands/run_command.h"
#include "trainer/commands/run_ranks.h"
#include "trainer/evaluation.h"
#include "trainer/inference.h"
#include "trainer/job/problems.h"
#include "trainer/rank_context.h"

namespace penstock::commands {
namespace {

struct EvalArguments {
  JobArguments job;
  std::string checkpoint;
  int64_t samples = 0;
  bool json = false;
};

int run_eval(const EvalArguments& arguments, const Job& job, transport::World& world) {
  if (job.data.validation.empty()) {
    throw JobError(
        fmt::format("{}: data.validation: required by eval, but missing: the token file to evaluate on, "
                    "also --set data.validation=PREFIX\n",
                    arguments.job.file),
        1);
  }
  Inference model = open_inference(job, arguments.checkpoint, world, false);
  Corpus corpus(model.job, model.tokenizer.get(),
                needs_tokens(model.job, model.engine->plan(), model.engine->place().pipeline));
  const EvaluationResult result =
      evaluate(*model.engine, world, corpus, model.job,
               arguments.samples > 0 ? arguments.samples : std::numeric_limits<int64_t>::max());
  if (world.rank() != 0) return 0;
  if (arguments.json) {
    const nlohmann::ordered_json text{{"schema", 1},
                                      {"checkpoint", model.checkpoint},
                                      {"step", model.step},
                                      {"loss", result.loss},
                                      {"perplexity", std::exp(result.loss)},
                                      {"tokens", result.tokens},
                                      {"samples", result.samples},
                                      {"seconds", result.seconds}};
    fmt::print("{}\n", text.dump(2));
  } else {
    fmt::print("{}: loss {:.4f}, perplexity {:.2f} over {} tokens of {} ({:.0f} tokens/s)\n",
               model.checkpoint, result.loss, std::exp(result.loss), result.tokens, job.data.validation,
               static_cast<double>(result.tokens) / result.seconds);
  }
  return 0;
}

}  // namespace

CLI::App* add_eval(CLI::App& parent, int& exit_code) {
  auto arguments = std::make_shared<EvalArguments>();
  CLI::App* command = parent.add_subcommand("eval", "Loss of a checkpoint on the job's validation file");
  arguments->job.add_to(*command);
  command->add_option("--checkpoint", arguments->checkpoint, "a checkpoint's folder; else the run's newest")
      ->type_name("FOLDER");
  command->add_option("--samples", arguments->samples, "only the first so many samples; else all of the file")
      ->check(whole_number(1, std::numeric_limits<int64_t>::max()))
      ->type_name("N");
  command->add_flag("--json", arguments->json, "answer in JSON");
  command->footer(
      "Examples:\n"
      "  penstock eval configs/quickstart.toml\n"
      "  penstock eval job.toml --checkpoint runs/NAME/checkpoints/step-00001000 --json\n"
      "  penstock eval job.toml --set 'data.validation=\"other\"'");
  command->callback([arguments, command, &exit_code] {
    exit_code = run_command([&] {
      leave_on_signals();
      return run_ranks(arguments->job, given_command(*command), [&](const Job& job, transport::World& world) {
        return run_eval(*arguments, job, world);
      });
    });
  });
  return command;
}

}  // namespace penstock::commands
