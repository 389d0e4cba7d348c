#include "parallel/schedule/csv.h"
#include "parallel/schedule/validate.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  using namespace penstock;
  try {
    schedule::ScheduleOptions any;
    any.ranks = 0;
    any.micro_batches = 0;
    const schedule::Schedule read = schedule::read_csv(fuzz::text_of(bytes, count), "x.csv", any);
    const std::string once = schedule::write_csv(read);
    fuzz::require(schedule::write_csv(schedule::read_csv(once, "x.csv", any)) == once,
                  "a schedule came back as another");
  } catch (const schedule::ScheduleError&) {
  }
  return 0;
}
