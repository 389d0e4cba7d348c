#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::data {

/// Writes a file so that a reader sees the old one or the complete new one, never a part: bytes go to
/// `<path>.partial`, and commit() flushes, fsyncs, renames it to `path` and fsyncs the folder. Without
/// commit() the destructor removes the partial file. A partial file that a killed process left behind is
/// written over; one that another process is writing (it holds a lock) is refused. Errors are WriteErrors
/// with file, offset, errno's text.
class FileWriter {
 public:
  explicit FileWriter(std::string path);
  /// Goes on with a partial file that keep() left, behind its first `bytes`. Throws DataError where it has
  /// fewer.
  FileWriter(std::string path, uint64_t bytes);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  /// Appends; small pieces are gathered to 1 MiB a system call. Short writes and EINTR are continued.
  void write(const void* bytes, size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }

  /// Brings all bytes written so far to disk, still under the partial name: what may fail for want of space
  /// has then happened, which matters where several files must appear together.
  void sync();

  /// From now on the destructor leaves the partial file, for another writer to go on with.
  void keep() { kept_ = true; }

  /// Makes the file appear under its name, durably. Nothing may be written afterwards.
  void commit();

  /// Makes the file appear under its name at once, but not durably: after a power failure the old one may be
  /// there. Takes no time of the disk's. Nothing may be written afterwards.
  void replace();

  const std::string& path() const { return path_; }
  /// Where the bytes are until then.
  const std::string& partial_path() const { return partial_; }
  /// Bytes written so far, those still gathered included.
  uint64_t offset() const { return flushed_ + buffer_.size(); }

 private:
  void check_name() const;
  void open_locked();
  void flush();
  void rename_and_close();
  void write_fully(const std::byte* bytes, size_t size);
  void discard() noexcept;

  std::string path_;
  std::string partial_;
  int fd_ = -1;
  bool kept_ = false;
  uint64_t flushed_ = 0;
  std::vector<std::byte> buffer_;
};

/// The whole of a small file in one call, with FileWriter's guarantees.
void write_file(const std::string& path, std::string_view text);

/// The same for files that only say how things are now: FileWriter::replace().
void replace_file(const std::string& path, std::string_view text);

/// Makes renames and creations in `folder` survive a power failure.
void sync_folder(const std::string& folder);

/// rename(2), then sync_folder of the target's folder. Works for folders too.
void rename_durably(const std::string& from, const std::string& to);

}  // namespace penstock::data
