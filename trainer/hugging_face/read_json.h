#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace penstock::hugging_face {

/// The JSON object in a file. DataError with the place if it is none, or cannot be read.
nlohmann::json read_json(const std::string& path);

}  // namespace penstock::hugging_face
