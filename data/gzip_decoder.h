#pragma once

#include <memory>
#include <string>

#include "data/stream_decoder.h"

namespace penstock::data {

/// gzip by zlib: members one behind the other, with zeros behind the last, as tapes have them.
std::unique_ptr<StreamDecoder> make_gzip_decoder(const std::string& path);

}  // namespace penstock::data
