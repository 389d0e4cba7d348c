#include "data/data_error.h"
#include "data/side_car.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  using namespace penstock;
  data::SideCar side_car;
  try {
    side_car = data::parse_side_car("side-car", fuzz::text_of(bytes, count));
  } catch (const data::DataError&) {
    return 0;
  }
  // The name of a tokenizer is a fingerprint; one that TOML would have to quote is nobody's.
  if (side_car.tokenizer.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz") != std::string::npos)
    return 0;
  fuzz::require(data::parse_side_car("again", data::side_car_text(side_car)) == side_car,
                "a side-car that is another one when it is read again");
  return 0;
}
