#include "data/data_error.h"
#include "data/tokenizer_json.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  using namespace penstock;
  const std::string text = fuzz::text_of(bytes, count);
  try {
    const data::Tokenizer tokenizer = data::parse_tokenizer(text, "tokenizer.json");
    const std::string once = data::tokenizer_json(tokenizer);
    fuzz::require(data::tokenizer_json(data::parse_tokenizer(once, "tokenizer.json")) == once,
                  "a tokenizer came back as another");
  } catch (const data::DataError&) {
  }
  return 0;
}
