#include "parallel/planner/profile.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  using namespace penstock;
  try {
    const planner::Profile profile = planner::read_profile(fuzz::text_of(bytes, count), "profile.json");
    const std::string once = planner::write_profile(profile);
    fuzz::require(planner::write_profile(planner::read_profile(once, "profile.json")) == once,
                  "a profile came back as another");
  } catch (const planner::ProfileError&) {
  }
  return 0;
}
