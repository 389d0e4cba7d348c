#pragma once

#include <memory>
#include <string>

#include "data/stream_decoder.h"

namespace penstock::data {

/// Zstandard by libzstd: frames one behind the other, skippable ones between them. A window of more than 128
/// MiB
/// (`zstd --long=28` and more, `--ultra`) is refused: memory must not grow with the input.
std::unique_ptr<StreamDecoder> make_zstd_decoder(const std::string& path);

}  // namespace penstock::data
