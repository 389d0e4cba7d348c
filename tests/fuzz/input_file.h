#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace penstock::fuzz {

/// Bytes as a file that readers open by its path, in memory; gone with the object.
class InputFile {
 public:
  InputFile(const uint8_t* bytes, size_t count);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  int descriptor_;
  std::string path_;
};

}  // namespace penstock::fuzz
