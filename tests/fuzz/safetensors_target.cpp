#include "data/data_error.h"
#include "tests/fuzz/input_file.h"
#include "tests/fuzz/target.h"
#include "trainer/checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  using namespace penstock;
  const fuzz::InputFile input(bytes, count);
  try {
    const checkpoint::SafetensorsFile file(input.path());
    unsigned sum = 0;
    uint64_t at = file.head().size();
    for (const checkpoint::StoredTensor& tensor : file.tensors()) {
      fuzz::require(tensor.begin == at && tensor.end >= at, "a tensor does not follow the one before it");
      for (at = tensor.begin; at < tensor.end; ++at) sum += static_cast<unsigned>(file.bytes()[at]);
    }
    fuzz::require(at == count && sum < ~0U, "bytes belong to no tensor");
  } catch (const data::DataError&) {
  }
  return 0;
}
