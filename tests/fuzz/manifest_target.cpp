#include <fmt/format.h>

#include "data/content_hash.h"
#include "tests/fuzz/target.h"
#include "trainer/checkpoint/checkpoint_error.h"
#include "trainer/checkpoint/manifest.h"

namespace {

using namespace penstock;

void read(const std::string& text) {
  try {
    const checkpoint::Manifest manifest = checkpoint::manifest_from_text("manifest.json", text);
    const std::string once = checkpoint::to_text(manifest);
    fuzz::require(checkpoint::to_text(checkpoint::manifest_from_text("manifest.json", once)) == once,
                  "a manifest came back as another");
  } catch (const checkpoint::CheckpointError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t count) {
  const std::string text = fuzz::text_of(bytes, count);
  read(text);
  // The file begins with the hash of its body, which no mutation meets: the body alone, in its frame.
  read(fmt::format("{{\"xxh3\": \"{}\",\n\"manifest\": {}}}\n",
                   data::hash_hex(data::hash_bytes(bytes, count)), text));
  return 0;
}
