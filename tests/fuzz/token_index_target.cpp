#include "data/data_error.h"
#include "data/token_index.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/target.h"

// The first four bytes are the size of the index's `.bin`.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  using namespace penstock;
  constexpr size_t head = 4;
  if (count < head) return 0;
  uint64_t bin_bytes = 0;
  for (size_t i = 0; i < head; ++i) bin_bytes |= uint64_t{bytes[i]} << (8 * i);
  const fuzz::InputFile input(bytes + head, count - head);
  try {
    const data::TokenIndex index(input.path(), bin_bytes);
    fuzz::require(index.tokens() * static_cast<uint64_t>(data::token_bytes(index.type())) == bin_bytes,
                  "an index whose tokens do not fill the file");
    uint64_t before = 0;
    for (uint64_t document = 0; document <= index.documents(); ++document) {
      const uint64_t start = index.document_start(document);
      fuzz::require(start >= before && start <= index.tokens(), "a document starts outside");
      fuzz::require(index.first_document_from(start) <= document, "a document is not found from its start");
      before = start;
    }
  } catch (const data::DataError&) {
  }
  return 0;
}
