// `penstock train` that is asked for actions after given steps, and may lose a rank in the middle of a move,
// or be asked to stop there by a signal to one of its ranks:
//   rearranging JOB [--set KEY=VALUE …] [--act STEP:REQUEST …] [--kill RANK:PHASE] [--stop RANK:PHASE]
#include <csignal>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "trainer/commands/job_arguments.h"
#include "trainer/commands/run_command.h"
#include "trainer/commands/run_ranks.h"
#include "trainer/stop_switch.h"
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
  std::string stop;
  app.add_option("--act", acts);
  app.add_option("--kill", kill);
  app.add_option("--stop", stop);
  CLI11_PARSE(app, argc, argv);
  TrainOptions options;
  for (const std::string& act : acts) options.acts.insert(split(act));
  const auto killed = kill.empty() ? std::pair(-1, std::string()) : split(kill);
  const auto stopped = stop.empty() ? std::pair(-1, std::string()) : split(stop);
  options.at_rearrangement = [&](int rank, std::string_view phase) {
    if (rank == killed.first && phase == killed.second) raise(SIGKILL);
    if (rank == stopped.first && phase == stopped.second) raise(SIGUSR1);
  };
  StopSwitch signals({}, std::nullopt);
  return commands::run_command([&] {
    return commands::run_ranks(job, "rearranging", [&](const Job& read, transport::World& world) {
      const bool polls = world.rank() == 0 || world.hosts().transport() != "inproc";
      return static_cast<int>(train(read, options, world, polls ? &signals : nullptr));
    });
  });
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  return penstock::run(argc, argv);
}
