#include "trainer/commands/generate.h"

#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "data/encoder.h"
#include "trainer/commands/given_command.h"
#include "trainer/commands/job_arguments.h"
#include "trainer/commands/leave_on_signal.h"
#include "trainer/commands/number_check.h"
#include "trainer/commands/run_command.h"
#include "trainer/commands/run_ranks.h"
#include "trainer/generation.h"
#include "trainer/job/problems.h"

namespace penstock::commands {
namespace {

struct GenerateArguments {
  JobArguments job;
  std::string checkpoint;
  std::string prompt;
  int64_t tokens = 100;
  int64_t texts = 1;
  TokenChoice choice;
};

int run_generate(const GenerateArguments& arguments, Job job, transport::World& world) {
  if (job.data.tokenizer.empty()) {
    throw JobError(
        fmt::format("{}: data.tokenizer: required by generate, but missing: the tokenizer to write text "
                    "with, also --set data.tokenizer=FILE\n",
                    arguments.job.file),
        1);
  }
  // One sequence at a time; every replica would write the same. As many micro-batches as any schedule asks
  // for: whose order it is does not matter here, but where it puts the stages.
  job.batch.micro = 1;
  job.batch.global = job.parallel.data * 2 * job.parallel.pipeline;
  const bool writes = world.rank() == 0;
  Inference model = open_inference(std::move(job), arguments.checkpoint, world, true);
  data::Encoder encoder(*model.tokenizer);
  std::vector<int32_t> prompt = encoder.encode(arguments.prompt);
  const std::optional<int32_t> end = model.tokenizer->end_of_text();
  if (const auto begin = model.tokenizer->begin_of_text()) prompt.insert(prompt.begin(), *begin);
  if (prompt.empty()) prompt.push_back(end.value_or(0));  // an empty prompt starts a document
  for (int64_t text = 0; text < arguments.texts; ++text) {
    if (writes) fmt::print("{}{}", text > 0 ? "\n----\n" : "", arguments.prompt);
    std::fflush(stdout);
    std::vector<int32_t> tokens = prompt;
    generate(model, tokens, arguments.tokens, arguments.choice, static_cast<uint64_t>(text), end.value_or(-1),
             [&](int32_t token) {
               // A token may end within a character; the terminal joins the bytes.
               if (writes && token != end && token < model.tokenizer->size()) {
                 const std::string bytes = model.tokenizer->decode(std::span(&token, 1));
                 std::fwrite(bytes.data(), 1, bytes.size(), stdout);
                 std::fflush(stdout);
               }
             });
  }
  if (writes) fmt::print("\n");
  return 0;
}

}  // namespace

CLI::App* add_generate(CLI::App& parent, int& exit_code) {
  auto arguments = std::make_shared<GenerateArguments>();
  CLI::App* command = parent.add_subcommand("generate", "Text written by a checkpoint");
  arguments->job.add_to(*command);
  command
      ->add_option("--prompt", arguments->prompt, "the text to go on from; without one a new document begins")
      ->type_name("TEXT");
  command->add_option("--tokens", arguments->tokens, "tokens to write at most")
      ->check(whole_number(1, int64_t{1} << 30))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--texts", arguments->texts, "how many continuations")
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
  command->add_option("--checkpoint", arguments->checkpoint, "a checkpoint's folder; else the run's newest")
      ->type_name("FOLDER");
  command->footer(
      "Examples:\n"
      "  penstock generate configs/quickstart.toml --prompt \"In the beginning\" --tokens 200\n"
      "  penstock generate job.toml --temperature 0.8 --top-p 0.95 --texts 3 --seed 7");
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
