#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

#include <unistd.h>

namespace penstock::checkpoint {

/// A new folder that is deleted with all in it when the object goes; in memory where the host has a place for
/// that, because these tests make thousands of small files.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_(place() + "/penstock-checkpoint-XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make " + path_);
  }
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  static std::string place() {
    return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : std::filesystem::temp_directory_path().string();
  }

  std::string path_;
};

}  // namespace penstock::checkpoint
