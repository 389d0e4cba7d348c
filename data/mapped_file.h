#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace penstock::data {

/// A whole regular file mapped read-only; the mapping lives as long as the object. Movable. The file must not
/// be truncated meanwhile (the kernel answers that with SIGBUS), which is why writers replace files by
/// rename.
class MappedFile {
 public:
  /// Throws DataError: missing, unreadable, a folder, a pipe. An empty file is fine: size() == 0, data() ==
  /// nullptr.
  explicit MappedFile(std::string path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  const std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  void unmap() noexcept;

  std::string path_;
  const std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace penstock::data
