#pragma once

#include <filesystem>
#include <string>

namespace penstock {

/// The text of a file that a person wrote. `what` it should be ("job file") stands in messages. JobError for
/// a file that cannot be read, is a folder, or is larger than any such file.
std::string read_text_file(const std::filesystem::path& file, const std::string& what);

}  // namespace penstock
