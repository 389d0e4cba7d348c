#include "trainer/commands/generate.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "trainer/commands/generate_output.h"
#include "trainer/commands/generate_prompts.h"
#include "trainer/commands/given_command.h"
#include "trainer/commands/job_arguments.h"
#include "trainer/commands/leave_on_signal.h"
#include "trainer/commands/number_check.h"
#include "trainer/commands/run_command.h"
#include "trainer/commands/run_ranks.h"
#include "trainer/generation.h"
#include "trainer/inference.h"
#include "trainer/job/problems.h"

namespace penstock::commands {
namespace {

struct GenerateArguments {
  JobArguments job;
  std::string checkpoint;
  std::vector<std::string> prompts;
  std::string prompts_file;
  std::vector<std::string> stops;
  int64_t tokens = 100;
  int64_t texts = 1;
  int64_t batch = 0;
  TokenChoice choice;
  bool json = false;
  bool timings = false;
  bool memory = false;
};

/// Texts at once where nobody says.
constexpr int64_t usual_batch = 8;

int run_generate(const GenerateArguments& arguments, Job job, transport::World& world) {
  if (job.data.tokenizer.empty()) {
    throw JobError(
        fmt::format("{}: data.tokenizer: required by generate, but missing: the tokenizer to write text "
                    "with, also --set data.tokenizer=FILE\n",
                    arguments.job.file),
        1);
  }
  const bool writes = world.rank() == 0;
  const std::shared_ptr<const data::Tokenizer> tokenizer = Corpus::open_tokenizer(job);
  std::vector<std::string> prompts = arguments.prompts;
  if (!arguments.prompts_file.empty()) {
    for (std::string& prompt : read_prompts(arguments.prompts_file, world))
      prompts.push_back(std::move(prompt));
  }
  if (prompts.empty()) prompts.emplace_back();
  const std::vector<std::vector<int32_t>> encoded = encode_prompts(prompts, *tokenizer);
  const std::vector<GenerationRequest> requests = requests_of(encoded, arguments.texts);
  model::CacheConfig cache;
  cache.slots =
      std::min(static_cast<int64_t>(requests.size()), arguments.batch > 0 ? arguments.batch : usual_batch);
  cache.positions = needed_positions(requests, arguments.tokens, job.model.sequence_length);
  GeneratingModel model = open_generation(std::move(job), tokenizer, arguments.checkpoint, world, cache);
  if (arguments.memory && writes) fmt::print(stderr, "{}", table(model.memory));
  GeneratedTexts texts(*tokenizer, prompts, arguments.texts, arguments.stops, arguments.tokens,
                       writes && !arguments.json);
  const GenerationFigures figures =
      generate(*model.engine, requests, arguments.tokens, arguments.choice,
               [&](size_t request, int32_t token) { return texts.add(request, token); });
  if (!writes || !(arguments.json || arguments.timings)) return 0;
  const nlohmann::ordered_json took = timings(model, figures);
  if (arguments.timings) fmt::print(stderr, "{}\n", timings_line(took));
  if (arguments.json) {
    const nlohmann::ordered_json answer{{"schema", 1},
                                        {"checkpoint", model.checkpoint},
                                        {"step", model.step},
                                        {"texts", texts.json()},
                                        {"timings", took}};
    fmt::print("{}\n", answer.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  return 0;
}

}  // namespace

CLI::App* add_generate(CLI::App& parent, int& exit_code) {
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* command = parent.add_subcommand("generate", "Text written by a checkpoint");
  arguments->job.add_to(*command);
  command
      ->add_option("--prompt", arguments->prompts,
                   "a text to go on from, also several times; without one a new document begins")
      ->type_name("TEXT")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  command
      ->add_option("--prompts-file", arguments->prompts_file,
                   "prompts, a line each, or the \"text\" of each line of a .jsonl; -: standard input")
      ->type_name("FILE");
  command->add_option("--max-tokens,--tokens", arguments->tokens, "tokens to write at most, of each text")
      ->check(whole_number(1, int64_t{1} << 30))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--texts", arguments->texts, "how many continuations of each prompt")
      ->check(whole_number(1, int64_t{1} << 20))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--temperature", arguments->choice.temperature, "0: always the likeliest token")
      ->check(real_number(0.0, 100.0))
      ->capture_default_str()
      ->type_name("X");
  command->add_option("--top-k", arguments->choice.top_k, "only the k likeliest tokens; 0: all")
      ->check(whole_number(0, int64_t{1} << 30))
      ->capture_default_str()
      ->type_name("K");
  command->add_option("--top-p", arguments->choice.top_p, "only the likeliest tokens that reach p together")
      ->check(real_number(1e-9, 1.0))
      ->capture_default_str()
      ->type_name("P");
  command->add_option("--seed", arguments->choice.seed, "another seed, another text")
      ->check(whole_number(0, std::numeric_limits<int64_t>::max()))
      ->capture_default_str()
      ->type_name("N");
  command
      ->add_option("--stop", arguments->stops,
                   "a text that ends a continuation, and is not part of it; also several times")
      ->type_name("TEXT")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false)
      ->check(CLI::Validator(
          [](std::string& text) { return text.empty() ? "expected a text to stop at" : std::string(); }, ""));
  command
      ->add_option("--batch", arguments->batch,
                   "texts at once, each with memory for its keys and values; else all, at most 8")
      ->check(whole_number(1, 4096))
      ->type_name("N");
  command->add_flag("--json", arguments->json, "texts, tokens and timings in JSON");
  command->add_flag("--timings", arguments->timings, "tokens a second, and their bound, on standard error");
  command->add_flag("--memory", arguments->memory, "every piece of memory, to the byte, on standard error");
  command->add_option("--checkpoint", arguments->checkpoint, "a checkpoint's folder; else the run's newest")
      ->type_name("FOLDER");
  command->footer(
      "Examples:\n"
      "  penstock generate configs/quickstart.toml --prompt \"In the beginning\" --max-tokens 200\n"
      "  penstock generate job.toml --temperature 0.8 --top-p 0.95 --texts 3 --seed 7\n"
      "  penstock generate job.toml --prompts-file prompts.txt --stop \".\" --json > texts.json");
  command->callback([arguments, command, &exit_code] {
    exit_code = run_command([&] {
      leave_on_signals();
      return run_ranks(arguments->job, given_command(*command), [&](const Job& job, transport::World& world) {
        return run_generate(*arguments, job, world);
      });
    });
  });
  return command;
}

}  // namespace penstock::commands
