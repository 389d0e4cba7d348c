#include "trainer/commands/export.h"

#include <memory>
#include <string>

#include <fmt/format.h>

#include "trainer/commands/byte_size.h"
#include "trainer/commands/checkpoint_argument.h"
#include "trainer/commands/number_check.h"
#include "trainer/commands/run_command.h"
#include "trainer/hugging_face/export_model.h"
#include "trainer/plan_figures.h"

namespace penstock::commands {
namespace {

struct Arguments {
  std::string source;
  std::string format = "hf";
  std::string dtype = "fp32";
  std::string shard_size = "5GB";
  hugging_face::ExportOptions options;
};

int run_export(Arguments& arguments) {
  hugging_face::ExportOptions& options = arguments.options;
  options.dtype = arguments.dtype == "bf16" ? DType::bf16 : DType::fp32;
  options.shard_bytes = byte_size(arguments.shard_size).value();
  const checkpoint::Checkpoint checkpoint = open_checkpoint(arguments.source);
  const hugging_face::ExportResult result = hugging_face::export_model(checkpoint, options);
  fmt::print("{}: {} parameters of {} (step {}) as {}, {}, {}\n", options.folder, result.parameters,
             checkpoint.path(), checkpoint.manifest().step, result.architecture, name_of(options.dtype),
             bytes_text(static_cast<int64_t>(result.bytes)));
  for (const std::string& file : result.files) fmt::print("  {}\n", file);
  return 0;
}

}  // namespace

CLI::App* add_export(CLI::App& parent, int& exit_code) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = parent.add_subcommand("export", "Write a checkpoint's model for other programs");
  command->add_option("source", arguments->source, "a run's folder (its newest checkpoint) or a checkpoint's")
      ->required()
      ->type_name("RUN|CHECKPOINT");
  command->add_option("--to", arguments->format, "the format: hf, a folder that transformers loads")
      ->check(CLI::IsMember({"hf"}))
      ->capture_default_str()
      ->type_name("FORMAT");
  command->add_option("-o,--output", arguments->options.folder, "the folder to write, new or empty")
      ->required()
      ->type_name("FOLDER");
  command->add_option("--dtype", arguments->dtype, "of the weights; a checkpoint's are fp32")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str()
      ->type_name("fp32|bf16");
  command->add_option("--shard-size", arguments->shard_size, "the weights of one file at most: 500MB, 2GiB")
      ->check(is_byte_size())
      ->capture_default_str()
      ->type_name("SIZE");
  command
      ->add_option("--tokenizer", arguments->options.tokenizer,
                   "the tokenizer.json to copy; without it: the job's; none: no tokenizer")
      ->type_name("FILE");
  command
      ->add_option("--positions", arguments->options.positions,
                   "max_position_embeddings; without it: the job's sequence_length")
      ->check(whole_number(1, int64_t{1} << 24))
      ->type_name("N");
  command->add_flag("--force", arguments->options.replace, "replace an exported model that is there");
  command->footer(
      "The class follows from the model: gpt2, llama, qwen2 (qkv_bias) or qwen3 (qk_norm). See\n"
      "docs/hugging-face.md.\n"
      "Examples:\n"
      "  penstock export runs/quickstart --to hf -o exported/quickstart\n"
      "  penstock export runs/llama/checkpoints/step-00010000 --to hf -o out --dtype bf16 --shard-size 2GB");
  command->callback(
      [arguments, &exit_code] { exit_code = run_command([&] { return run_export(*arguments); }); });
  return command;
}

}  // namespace penstock::commands
