#include "trainer/commands/eval.h"

#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "model/flops.h"
#include "model/rank_config.h"
#include "trainer/commands/given_command.h"
#include "trainer/commands/job_arguments.h"
#include "trainer/commands/leave_on_signal.h"
#include "trainer/commands/number_check.h"
#include "trainer/commands/run_command.h"
#include "trainer/commands/run_ranks.h"
#include "trainer/evaluation_text.h"
#include "trainer/inference.h"
#include "trainer/job/problems.h"
#include "trainer/perplexity.h"
#include "trainer/rank_context.h"
#include "trainer/report/matmul_roof.h"

namespace penstock::commands {
namespace {

struct EvalArguments {
  JobArguments job;
  std::string file;
  std::string checkpoint;
  int64_t samples = 0;
  int64_t stride = 0;
  bool json = false;
};

/// Rates of large products on all ranks, measured at once, as they compute at once.
double matmul_roof(LoadedModel& model, transport::World& world) {
  std::array<double, 1> roof{measure_matmul_roof(*model.backend.device, model.backend.math,
                                                 model::compute_dtype(model.job.precision.compute))};
  world.all_reduce(roof, transport::Reduction::sum);
  return roof[0];
}

nlohmann::ordered_json answer_of(const Inference& model, const std::string& file,
                                 const WindowOptions& windows, const Perplexity& found, double roof) {
  nlohmann::ordered_json answer{{"schema", 1},          {"checkpoint", model.checkpoint},
                                {"step", model.step},   {"file", file},
                                {"loss", found.loss()}, {"perplexity", std::exp(found.loss())}};
  if (const std::optional<double> bits = found.bits_per_byte()) {
    answer["bits_per_byte"] = *bits;
    answer["bytes"] = *found.bytes;
  }
  // A forward is a third of what a training step computes.
  const double computed = static_cast<double>(found.windows * model.job.model.sequence_length);
  const double flops = computed * model::training_flops_per_token(model.job.model) / 3 / found.seconds;
  answer["tokens"] = found.tokens;
  answer["samples"] = found.windows;
  answer["stride"] = windows.stride;
  answer["seconds"] = found.seconds;
  answer["tokens_per_second"] = static_cast<double>(found.tokens) / found.seconds;
  answer["flops_per_second"] = flops;
  answer["matmul_flops_per_second"] = roof;
  answer["matmul_share"] = flops / roof;
  return answer;
}

void print(const nlohmann::ordered_json& answer) {
  const auto number = [&](const char* key) { return answer[key].get<double>(); };
  const std::string bits =
      answer.contains("bits_per_byte") ? fmt::format(", {:.4f} bits a byte", number("bits_per_byte")) : "";
  fmt::print(
      "{}: loss {:.4f}, perplexity {:.2f}{} over {} tokens of {} ({:.0f} tokens/s, {:.0f} % of the matmul "
      "roof)\n",
      answer["checkpoint"].get<std::string>(), number("loss"), number("perplexity"), bits,
      answer["tokens"].get<int64_t>(), answer["file"].get<std::string>(), number("tokens_per_second"),
      100 * number("matmul_share"));
}

int run_eval(const EvalArguments& arguments, const Job& job, transport::World& world) {
  const std::string& file = arguments.file.empty() ? job.data.validation : arguments.file;
  if (file.empty()) {
    throw JobError(
        fmt::format("{}: data.validation: required by eval without a FILE, but missing: the token file to "
                    "evaluate on, also --set data.validation=PREFIX\n",
                    arguments.job.file),
        1);
  }
  WindowOptions windows;
  windows.stride = arguments.stride > 0 ? arguments.stride : job.model.sequence_length;
  if (windows.stride > job.model.sequence_length) {
    throw JobError(
        fmt::format("--stride {}: more than the model's sequence_length, {}: tokens between windows would "
                    "be left out; expected 1 to {}\n",
                    windows.stride, job.model.sequence_length, job.model.sequence_length),
        1);
  }
  if (arguments.samples > 0) windows.most = arguments.samples;
  Inference model = open_inference(job, arguments.checkpoint, world, false);
  const EvaluationText text(file, model.job, model.tokenizer.get(), world,
                            needs_tokens(model.job, model.engine->plan(), model.engine->place().pipeline));
  const Perplexity found =
      measure_perplexity(*model.engine, world, text, model.tokenizer.get(), model.job, windows);
  model.engine.reset();  // its memory is the measurement's
  const double roof = matmul_roof(model, world);
  if (world.rank() != 0) return 0;
  const nlohmann::ordered_json answer = answer_of(model, file, windows, found, roof);
  if (arguments.json) {
    fmt::print("{}\n", answer.dump(2));
  } else {
    print(answer);
  }
  return 0;
}

}  // namespace

CLI::App* add_eval(CLI::App& parent, int& exit_code) {
  auto arguments = std::make_shared<EvalArguments>();
  CLI::App* command = parent.add_subcommand("eval", "Loss and perplexity of a checkpoint on a file");
  arguments->job.add_to(*command);
  command
      ->add_option("file", arguments->file,
                   "a token file, a text, or JSON lines; -: standard input; else the job's data.validation")
      ->type_name("FILE");
  command->add_option("--checkpoint", arguments->checkpoint, "a checkpoint's folder; else the run's newest")
      ->type_name("FOLDER");
  command->add_option("--samples", arguments->samples, "only the first so many windows; else all of the file")
      ->check(whole_number(1, std::numeric_limits<int64_t>::max()))
      ->type_name("N");
  command
      ->add_option(
          "--stride", arguments->stride,
          "tokens from a window of sequence_length to the next, of which only the new ones count; else "
          "sequence_length: windows do not overlap")
      ->check(whole_number(1, int64_t{1} << 24))
      ->type_name("N");
  command->add_flag("--json", arguments->json, "answer in JSON");
  command->footer(
      "Examples:\n"
      "  penstock eval configs/quickstart.toml\n"
      "  penstock eval job.toml --checkpoint runs/NAME/checkpoints/step-00001000 --json\n"
      "  penstock eval job.toml book.txt --stride 256\n"
      "  cat book.txt | penstock eval job.toml - --json");
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
