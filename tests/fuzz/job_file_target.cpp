#include "tests/fuzz/target.h"
#include "trainer/job/problems.h"
#include "trainer/job/read_job.h"
#include "trainer/job/write_job.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  using namespace penstock;
  const std::string text = fuzz::text_of(bytes, count);
  try {
    Launch launch;
    launch.ranks = 4;
    const std::string once = to_toml(parse_job(text, "job.toml", {}, launch));
    fuzz::require(to_toml(parse_job(once, "job.toml", {}, launch)) == once, "a job came back as another");
  } catch (const JobError&) {
  }
  return 0;
}
