#include "trainer/commands/import.h"

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "trainer/commands/number_check.h"
#include "trainer/commands/run_command.h"
#include "trainer/hugging_face/import_model.h"

namespace penstock::commands {
namespace {

struct Arguments {
  std::string folder;
  std::vector<std::string> ignored;
  hugging_face::ImportOptions options;
};

int run_import(Arguments& arguments) {
  arguments.options.ignored = {arguments.ignored.begin(), arguments.ignored.end()};
  const hugging_face::ImportResult result = hugging_face::import_model(arguments.folder, arguments.options);
  for (const std::string& note : result.notes) fmt::print(stderr, "penstock: note: {}\n", note);
  fmt::print("{}: {} parameters of {} ({}, {})\ngo on with {}\n", result.checkpoint, result.parameters,
             arguments.folder, result.architecture, result.types, result.job);
  return 0;
}

}  // namespace

CLI::App* add_import(CLI::App& parent, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = parent.add_subcommand(
      "import", "Read a model that Hugging Face transformers wrote, as step 0 of a run");
  command->add_option("folder", arguments->folder, "config.json and safetensors; tokenizer.json if there")
      ->required()
      ->type_name("HF_FOLDER");
  command->add_option("-o,--output", arguments->options.run, "the new run's folder")
      ->required()
      ->type_name("RUN");
  CLI::Option* job = command
                         ->add_option("--job", arguments->options.job,
                                      "a job file for this model; without it one is written: RUN/job.toml")
                         ->type_name("FILE");
  command
      ->add_option("--sequence-length", arguments->options.sequence_length,
                   "of the job that is written; without it the model's longest, at most 4096")
      ->check(whole_number(1, int64_t{1} << 24))
      ->excludes(job)
      ->type_name("N");
  command
      ->add_option("--ignore", arguments->ignored,
                   "a field of config.json to pass over, where it changes nothing that the model computes")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false)  // one name each: what follows may be the folder
      ->type_name("NAME");
  command->footer(
      "Reads gpt2, llama, qwen2 and qwen3. Optimizer moments start from zero. See docs/hugging-face.md.\n"
      "Examples:\n"
      "  penstock import models/gpt2 -o runs/gpt2\n"
      "  penstock generate runs/gpt2/job.toml --prompt \"In the beginning\" --temperature 0\n"
      "  penstock import models/llama-3.2-1b -o runs/tuned --job tuned.toml");
  command->callback(
      [arguments, &exit_code] { exit_code = run_command([&] { return run_import(*arguments); }); });
  return command;
}

}  // namespace penstock::commands
