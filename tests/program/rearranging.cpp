// `penstock train` that is asked for actions after given steps, and may lose a rank in the middle of a move:
//   rearranging JOB [--set KEY=VALUE …] [--act STEP:REQUEST …] [--kill RANK:PHASE]
#include <csignal>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "trainer/commands/job_arguments.h"
#include "trainer/commands/run_command.h"
#include "trainer/commands/run_ranks.h"
#include "trainer/training.h"

namespace penstock {
namespace {

std::pair<int, std::string> split(const std::string& text) {
  const size_t colon = text.find(':');
  return {std::stoi(text.substr(0, colon)), text.substr(colon + 1)};
}

int run(int argc, char** argv) {
  CLI::App app;
  commands::JobArguments job;
  job.add_to(app);
  std::vector<std::string> acts;
  std::string kill;
  app.add_option("--act", acts);
  app.add_option("--kill", kill);
  CLI11_PARSE(app, argc, argv);
  TrainOptions options;
  for (const std::string& act : acts) options.acts.insert(split(act));
  if (!kill.empty()) {
    options.at_rearrangement = [victim = split(kill)](int rank, std::string_view phase) {
      if (rank == victim.first && phase == victim.second) raise(SIGKILL);
    };
  }
  return commands::run_command([&] {
    return commands::run_ranks(job, "rearranging", [&](const Job& read, transport::World& world) {
      return static_cast<int>(train(read, options, world, nullptr));
    });
  });
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  return penstock::run(argc, argv);
}
