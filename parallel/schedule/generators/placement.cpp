#include "parallel/schedule/generators/placement.h"

namespace penstock::schedule {

namespace {

Schedule empty(const std::string& name, const ScheduleOptions& options, int copies) {
  Schedule schedule;
  schedule.name = name;
  schedule.ranks = options.ranks;
  schedule.chunks = options.chunks;
  schedule.micro_batches = options.micro_batches;
  schedule.copies = copies;
  schedule.steps = options.steps;
  schedule.rank_of_stage.resize(static_cast<size_t>(schedule.stages()));
  schedule.actions.resize(static_cast<size_t>(options.ranks));
  return schedule;
}

}  // namespace

Schedule looped(const std::string& name, const ScheduleOptions& options) {
  Schedule schedule = empty(name, options, 1);
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    schedule.rank_of_stage[static_cast<size_t>(stage)] = stage % options.ranks;
  }
  return schedule;
}

Schedule zig_zag(const std::string& name, const ScheduleOptions& options) {
  Schedule schedule = empty(name, options, 1);
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    const int down_and_up = stage % (2 * options.ranks);
    schedule.rank_of_stage[static_cast<size_t>(stage)] =
        down_and_up < options.ranks ? down_and_up : 2 * options.ranks - 1 - down_and_up;
  }
  return schedule;
}

Schedule two_way(const std::string& name, const ScheduleOptions& options) {
  Schedule schedule = empty(name, options, 2);
  for (int block = 0; block < options.ranks; ++block) {
    schedule.rank_of_stage[static_cast<size_t>(block)] = block;
    schedule.rank_of_stage[static_cast<size_t>(options.ranks + block)] = options.ranks - 1 - block;
  }
  return schedule;
}

}  // namespace penstock::schedule
