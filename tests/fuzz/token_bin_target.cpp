#include "data/data_error.h"
#include "data/token_format.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/target.h"

// Token files without an index.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  using namespace penstock;
  const fuzz::InputFile input(bytes, count);
  const data::MappedFile bin(input.path());
  const auto check = [&](const data::TokenLayout& layout) {
    const auto item = static_cast<uint64_t>(data::token_bytes(layout.type));
    fuzz::require(layout.begin <= count && layout.tokens * item == count - layout.begin,
                  "a layout whose tokens do not fill the file");
  };
  try {
    if (const auto layout = data::llm_c_layout(bin)) check(*layout);
  } catch (const data::DataError&) {
  }
  try {
    check(data::headerless_layout(bin, data::TokenType::uint16));
  } catch (const data::DataError&) {
    fuzz::require(count % 2 == 1, "whole tokens are refused");
  }
  return 0;
}
