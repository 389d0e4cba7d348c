#include "trainer/same_job.h"

#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "kernels/transport/launch.h"
#include "trainer/job/write_job.h"
#include "trainer/version/version.h"

namespace penstock {
namespace {

// "run.seed = 9" and "run.seed = 1", where the two first differ.
std::pair<std::string, std::string> first_difference(const std::string& one, const std::string& other) {
  std::istringstream ours(one);
  std::istringstream theirs(other);
  std::string section;
  std::string mine;
  std::string yours;
  while (true) {
    const bool more = static_cast<bool>(std::getline(ours, mine));
    if (!std::getline(theirs, yours)) yours.clear();
    if (!more) mine.clear();
    if (mine != yours || !more) return {section + mine, section + yours};
    if (mine.size() > 2 && mine.front() == '[' && mine.back() == ']')
      section = mine.substr(1, mine.size() - 2) + ".";
  }
}

}  // namespace

void check_same_build(const std::string& ours, transport::World& world) {
  const std::vector<std::string> builds = world.all_gather(ours);
  for (size_t rank = 1; rank < builds.size(); ++rank) {
    if (builds[rank] == builds[0]) continue;
    throw transport::LaunchError(
        fmt::format("rank {} is another program than rank 0: found {}, expected {}; install one build on all "
                    "hosts",
                    rank, builds[rank], builds[0]));
  }
}

std::string own_build() {
  const BuildInfo& build = build_info();
  return fmt::format("penstock {} ({}, {}, {}, {})", build.version, build.git_id, build.compiler,
                     build.build_type, build.cpu_target);
}

void check_same_job(const Job& job, transport::World& world) {
  const std::vector<std::string> jobs = world.all_gather(to_toml(job));
  for (size_t rank = 1; rank < jobs.size(); ++rank) {
    if (jobs[rank] == jobs[0]) continue;
    const auto [first, other] = first_difference(jobs[0], jobs[rank]);
    throw transport::LaunchError(
        fmt::format("rank {} was started with another job than rank 0: found {}, expected {}; give all ranks "
                    "the same job file and the same --set",
                    rank, other, first));
  }
}

}  // namespace penstock
